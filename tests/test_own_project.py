"""examples/own, as a stranger uses it: run, kill -9, resume, compare, tune, report, watch; and mistakes in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import driftless
from driftless.project import TEMPLATE
from runs.runs import Outcome, assert_same_run, command, lines, process, wait_until

OWN = Path(__file__).parent.parent / "examples" / "own"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(OWN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def driftless_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    return lambda *words: command(monkeypatch, capsys, *words)


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_new_writes_the_files_of_the_example(tmp_path: Path, driftless_command):
    ended = driftless_command("new", tmp_path / "mine")
    assert ended.code == 0
    assert "next: cd" in ended.out
    written = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    assert written == {path.name: path.read_bytes() for path in TEMPLATE.iterdir() if path.is_file()}
    assert OWN.resolve() == TEMPLATE.resolve()


@pytest.mark.parametrize("taken", ["a file in it", "a file of that name"])
def test_new_overwrites_nothing(taken: str, tmp_path: Path, driftless_command):
    folder = tmp_path / "mine"
    file = folder / "data.py" if taken == "a file in it" else folder
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    ended = driftless_command("new", folder)
    assert ended.code == 2
    assert "exists and is not an empty folder" in ended.err
    assert file.read_text() == "mine"


def test_a_run_of_it_is_killed_and_resumed_to_the_same_bits(project: Path, driftless_command):
    words = ["run", "config.toml", "rounds=20", "checkpoint_every=3"]
    with process(*words, "output=part") as child:
        wait_until(lambda: lines(project / "part") >= 7, child)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert driftless_command("resume", "part").code == 0
    assert driftless_command(*words, "output=whole").code == 0
    assert_same_run(project / "part", project / "whole")
    stored = driftless.load_run("whole")
    assert stored.history.last("test_worst_class_accuracy") is not None
    assert stored.history.last("test_f1") is not None
    module = stored.module()
    assert type(module).__name__ == "Net"


def test_it_is_compared_tuned_and_reported(project: Path, driftless_command):
    few = ["config.toml", "rounds=4"]
    ended = driftless_command(
        "compare", "fedavg", "damped=algorithm.py:Damped,mu=0.2", *few, "seeds=2", "output=cmp", "--jobs", "1", "--json"
    )
    assert ended.code == 0, ended.err
    assert (project / "cmp" / "damped" / "seed-1" / "model.safetensors").exists()
    ended = driftless_command(
        "tune", *few, "trials=2", "space.mu=[0.01,0.1]", "monitor=f1", "output=search", "--jobs", "1", "--json"
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["measure"] == "validation_f1"
    assert driftless_command("run", "search/best.toml", "output=best", "--quiet").code == 0
    assert driftless_command("report", "cmp").code == 0
    page = (project / "cmp" / "report.html").read_text()
    assert "damped" in page
    assert "worst class accuracy" in page or "worst_class_accuracy" in page


def test_a_run_of_it_is_watched_while_it_goes_on(project: Path):
    (project / "runs").mkdir()
    with (
        process("run", "config.toml", "rounds=2000", "output=runs/long", "--quiet") as run,
        process("watch", "runs", "--port", "0") as watch,
    ):
        wait_until(lambda: lines(project / "runs" / "long") >= 2, run)
        assert watch.stdout is not None
        address = None
        while address is None:
            line = watch.stdout.readline()
            assert line, watch.communicate()
            address = re.search(r"http://127\.0\.0\.1:\d+/?", line)
        with urllib.request.urlopen(address.group(), timeout=60) as answer:
            page = answer.read().decode()
    assert "Damped" in page


def test_the_script_of_it_runs_and_continues(project: Path):
    changed(project / "experiment.py", '"rounds": 40', '"rounds": 3')
    changed(project / "experiment.py", "trials=10", "trials=2")
    changed(project / "experiment.py", "seeds=3", "seeds=1")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "experiment.py"], capture_output=True, text=True, timeout=300, check=False
        )

    first, second = run(), run()
    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout
    assert "damped" in first.stdout


# ------------------------------------------------------------------------------------------------------------ mistakes


def refused(ended: Outcome, folder: Path, *parts: str, code: int = 2) -> None:
    assert ended.code == code, ended
    assert [part for part in parts if part not in ended.err] == [], ended.err
    assert not folder.exists()


MISTAKES = {
    "a function that returns no federation": (
        "data.py", 'name="sensors")', 'name="sensors").clients', "make a federation with driftless.load",
    ),
    "a loss that is no number": (
        "objective.py", "return -((1 - log_p.exp()) ** 2 * log_p).mean()", "return log_p", "the loss returned",
    ),
    "a metric that returns a vector": (
        "objective.py", "return float(torch.stack(", "return correct, float(torch.stack(", "worst_class_accuracy",
    ),
    "a name that is not in the file": ("config.toml", "model.py:Net", "model.py:Nett", "did you mean 'Net'?"),
    "a file that is not there": ("config.toml", "model.py:Net", "modell.py:Net", "there is no file"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_own_code_is_one_clear_message_and_nothing_is_written(name: str, project: Path, driftless_command):
    file, old, new, message = MISTAKES[name]
    changed(project / file, old, new)
    refused(driftless_command("run", "config.toml", "output=out"), project / "out", message)


def test_a_factory_with_a_missing_argument_names_it(project: Path, driftless_command):
    changed(project / "model.py", "hidden: int = 32", "hidden: int")
    changed(project / "config.toml", "hidden = 32\n", "")
    ended = driftless_command("run", "config.toml", "output=out")
    refused(ended, project / "out", "cannot be called without hidden", "driftless supplies federation")


def test_own_code_that_raises_is_shown_with_its_traceback_and_what_driftless_was_doing(project, driftless_command):
    changed(project / "model.py", "        return self.layers(inputs)", "        return self.layers(inputs) + missing")
    ended = driftless_command("run", "config.toml", "output=out")
    assert "missing" in ended.err
    assert 'model.py", line' in ended.err
    assert not (project / "out").exists()
    changed(project / "data.py", "    rng = np.random", "    1 / 0\n    rng = np.random")
    ended = driftless_command("run", "config.toml", "output=out")
    assert ended.code == 1
    assert 'data.py", line' in ended.err
    assert "your code raised ZeroDivisionError: division by zero while driftless was calling" in ended.err


def test_a_file_that_changed_is_named_by_resume_and_a_changed_federation_is_refused(project, driftless_command):
    assert driftless_command("run", "config.toml", "rounds=4", "output=out", "--quiet").code == 0
    (project / "out" / "result.json").unlink()
    changed(project / "data.py", "0.5 * offset", "0.6 * offset")
    ended = driftless_command("resume", "out")
    assert ended.code == 2
    assert "data.py' is not known to be the code of the run" in ended.err
    ended = driftless_command("resume", "out", "--trust")
    assert ended.code == 2
    assert "the data changed since then" in ended.err


def test_a_file_that_has_only_a_new_comment_can_be_trusted(project, driftless_command):
    assert driftless_command("run", "config.toml", "rounds=4", "output=out", "--quiet").code == 0
    (project / "out" / "result.json").unlink()
    changed(project / "model.py", "class Net", "# A comment\nclass Net")
    assert driftless_command("resume", "out").code == 2
    assert driftless_command("resume", "out", "--trust", "--quiet").code == 0
