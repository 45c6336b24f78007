"""The progress bar: one line of 80 columns, in a terminal and in a notebook, and nothing elsewhere."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from driftless import InputError, LocalTraining, load, simulate
from driftless.progress import LONGEST_TITLE, headline, rate_text, rounds_bar, shortened
from terminals import in_a_terminal

WHOLE = {"train_loss": 0.4, "test_loss": 1.25, "test_accuracy": 0.81234}


def drawn(title: str, total: int, rounds: dict[int, dict[str, float]], width: int = 80) -> list[str]:
    """The lines that a terminal of this width is sent, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="truecolor")
    with rounds_bar(title, total, console=console) as bar:
        for number, metrics in rounds.items():
            bar.show_round(number, metrics)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    return [line for line in re.split(r"[\r\n]+", text) if line]


@pytest.mark.parametrize("title", ["fedavg", "an-algorithm-with-a-name-that-never-ends", "数" * 30])
@pytest.mark.parametrize("total", [3, 100, 99_999])
def test_the_bar_is_one_line_of_eighty_columns(title: str, total: int):
    shown = drawn(title, total, {1: WHOLE, total - 1: {**WHOLE, "test_accuracy": 1.2345e-7}, total: WHOLE})
    assert max(map(cell_len, shown)) <= 80
    assert f"{total}/{total} rounds test accuracy 0.8123" in shown[-1]


def test_the_bar_shows_round_metric_rate_and_time_left():
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with rounds_bar("fedavg", 50, console=console) as bar:
        bar.show_round(10, WHOLE)
        bar.show_round(20, WHOLE)
        bar.show_round(30, WHOLE)
    assert re.search(r"fedavg .* 30/50 rounds test accuracy 0\.8123 \d+\.\d/s \d\d:\d\d left", out.getvalue())


def test_the_newest_accuracy_stays_until_it_is_measured_again_and_a_lost_round_is_said():
    last = drawn("fedavg", 9, {1: WHOLE, 2: {"train_loss": 0.3}})[-1]
    assert "test accuracy 0.8123" in last
    assert "round lost" in drawn("fedavg", 9, {1: WHOLE, 2: {"norm_x": 1.0}})[-1]


def test_without_accuracy_the_bar_shows_a_loss():
    assert headline({"train_loss": 0.5, "test_loss": 1.25}) == "test loss 1.25"
    assert headline({"train_loss": 1e22}) == "train loss 1e+22"
    assert headline({}) == ""


def test_a_slow_rate_is_the_time_of_a_round():
    assert [rate_text(speed) for speed in (None, 12.34, 1.0, 0.04)] == ["", "12.3/s", "1.0/s", "25.0 s each"]


@pytest.mark.parametrize("title", ["fedavg", "a" * 100, "数" * 100])
def test_a_title_is_shortened_to_its_columns(title: str):
    assert cell_len(shortened(title)) <= LONGEST_TITLE
    assert shortened("fedavg") == "fedavg"


# From Python


def small_run(**options: object) -> object:
    federation = load("digits", clients=10)
    return simulate(
        "fedavg",
        federation,
        "logistic",
        rounds=3,
        cohort=2,
        local=LocalTraining(lr=0.1, epochs=1, batch_size=None),
        **options,
    )


def test_where_no_terminal_is_there_is_no_bar(capsys: pytest.CaptureFixture[str]):
    small_run(progress=True)
    assert capsys.readouterr() == ("", "")


def test_progress_is_true_or_false():
    with pytest.raises(InputError, match="progress must be one of True, False, got 1"):
        small_run(progress=1)


SCRIPT = """
import driftless

federation = driftless.load("digits", clients=10)
driftless.simulate(
    "scaffold-momentum", federation, "logistic", rounds=40, cohort=2, progress=True,
    on_round=lambda record: print("mine"),
)
"""


def test_simulate_in_a_terminal_shows_a_bar_that_keeps_to_its_line(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = in_a_terminal(tmp_path / "script.py")
    assert ended.code == 0
    assert max(cell_len(line) for line in ended.lines) <= 80
    assert re.search(r"scaffold-moment… .* 40/40 rounds test accuracy 0\.\d+", ended.text)
    assert ended.text.count("mine") == 40


def test_what_a_script_prints_into_a_file_stays_there(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    with open(tmp_path / "log", "wb") as log:
        ended = in_a_terminal(tmp_path / "script.py", stdout=log)
    assert "40/40 rounds" in ended.text
    assert "mine" not in ended.text
    assert (tmp_path / "log").read_text() == "mine\n" * 40


ON_DISK = """
import driftless

federation = driftless.load("digits", clients=10)
settings = dict(rounds=4, cohort=2, progress=True)
driftless.run("fedavg", federation, "logistic", output="one", **settings)
driftless.compare(["fedavg", "fedprox"], federation, "logistic", output="several", seeds=1, jobs=1, **settings)
"""


def test_runs_and_comparisons_of_a_script_show_a_bar_too(tmp_path: Path):
    (tmp_path / "script.py").write_text(ON_DISK)
    ended = in_a_terminal("script.py", cwd=tmp_path)
    assert ended.code == 0
    assert re.search(r"fedavg .* 4/4 rounds test accuracy 0\.\d+", ended.text)
    assert re.search(r"2 runs .* 8/8 rounds", ended.text)


NOTEBOOK = """
import driftless

federation = driftless.load("digits", clients=10)
result = driftless.simulate("fedavg", federation, "logistic", rounds=5, cohort=2, progress=True)
result
"""


def test_a_notebook_shows_the_bar_once_and_then_the_result():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    shown, result = notebook.cells[0].outputs
    assert shown["output_type"] == "display_data"
    assert re.search(r"fedavg .*5/5 rounds test accuracy 0\.\d+", Text.from_ansi(shown["data"]["text/plain"]).plain)
    assert "5/5 rounds" in shown["data"]["text/html"]
    assert result["data"]["text/plain"].startswith("Result(fedavg: 5 rounds in")
    assert "test accuracy" in result["data"]["text/html"]
