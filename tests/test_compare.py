"""Algorithms times seeds: planned and checked as a whole, run over processes, killed and resumed as a whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from driftless.compare import execute, plan, prepare_folder, read_comparison
from driftless.config.build import simulation_of
from driftless.config.resolution import to_toml
from driftless.errors import InputError
from driftless.runs.run import start
from runs.runs import assert_same_run, command, lines, process, timeless, wait_until, words

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.toml"
NAMES = ["fedavg", "scaffold"]
SETTINGS = [*words("rounds=10", "epochs=3", "batch_size=20", "checkpoint_every=4"), "seeds=2"]
"""Runs of 20 ms a round: long enough to be interrupted."""


def written(folder: Path, text: str) -> Path:
    file = folder / "compared.toml"
    file.write_text(text, encoding="utf-8")
    return file


def error_of(*arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        plan(*arguments)
    return str(caught.value)


# The plan


def test_the_runs_are_algorithms_times_seeds_from_the_first_seed():
    comparison = plan(["fedavg", "adabest"], None, [*words("seed=5"), "seeds=2"])
    expected = {"fedavg/seed-5": 5, "fedavg/seed-6": 6, "adabest/seed-5": 5, "adabest/seed-6": 6}
    assert {name: run.config.run.seed for name, run in comparison.runs.items()} == expected
    assert all(run.config.algorithm.name == name.split("/")[0] for name, run in comparison.runs.items())
    assert comparison.rounds == 4 * 8
    assert len(plan(["fedavg"], None, words()).runs) == 3


def test_every_run_has_one_process_unless_the_user_wants_more():
    assert all(run.config.engine.workers == 1 for run in plan(NAMES, None, words()).runs.values())
    assert plan(NAMES, None, words()).runs["fedavg/seed-0"].source["engine.workers"] == "the comparison"
    assert plan(["fedavg"], None, words("workers=2")).runs["fedavg/seed-0"].config.engine.workers == 2


TABLE = """
[local]
lr = 0.3
[compare]
algorithms = ["fedavg", "scaffold", "fedadam", "fedcm"]
seeds = 2
target = 0.8
[compare.settings]
fedavg = { lr = 0.5, "run.rounds" = 7 }
fedadam = { server_lr = 0.02, local = { lr = 0.6 } }
fedcm = { alpha = 0.4 }
"""


def test_the_settings_of_one_algorithm_are_its_own(tmp_path):
    comparison = plan([], written(tmp_path, TABLE), [])
    assert comparison.target == 0.8
    assert len(comparison.runs) == 8
    found = {name: run.config for name, run in comparison.runs.items() if name.endswith("seed-0")}
    assert {name.split("/")[0]: c.local.lr for name, c in found.items()} == {
        "fedavg": 0.5, "scaffold": 0.3, "fedadam": 0.6, "fedcm": 0.3,
    }  # fmt: skip
    assert [c.run.rounds for c in found.values()] == [7, 100, 100, 100]
    assert simulation_of(found["fedadam/seed-0"]).algorithm.server_lr == 0.02
    assert simulation_of(found["fedcm/seed-0"]).algorithm.alpha == 0.4
    source = comparison.runs["fedavg/seed-0"].source
    assert source["local.lr"] == f"compare.settings.fedavg of {tmp_path / 'compared.toml'}"


def test_the_command_line_wins_over_the_settings_and_the_names_of_the_file(tmp_path):
    comparison = plan(["fedavg", "adabest"], written(tmp_path, TABLE), ["lr=0.9", "seeds=1", "target=0.5"])
    assert list(comparison.runs) == ["fedavg/seed-0", "adabest/seed-0"]
    assert {run.config.local.lr for run in comparison.runs.values()} == {0.9}
    assert comparison.runs["fedavg/seed-0"].config.run.rounds == 7
    assert comparison.target == 0.5


def test_hyper_parameters_in_the_file_belong_to_its_algorithm_and_not_to_the_others(tmp_path):
    comparison = plan(NAMES, written(tmp_path, '[algorithm]\nname = "fedavg"\nserver_lr = 0.5\n'), words())
    found = {name: simulation_of(run.config).algorithm.server_lr for name, run in comparison.runs.items()}
    assert (found["fedavg/seed-0"], found["scaffold/seed-0"]) == (0.5, 1.0)


def test_the_example_of_the_documentation_is_a_valid_comparison():
    comparison = plan([], EXAMPLE, [])
    assert len(comparison.runs) == 27
    for name, run in comparison.runs.items():
        if name.endswith("seed-0"):
            simulation_of(run.config)


@pytest.mark.parametrize(
    ("names", "overrides", "said"),
    [
        ([], [], "no algorithm to compare"),
        (["fedavg", "scafold"], [], "did you mean 'scaffold'?"),
        (["fedavg", "fedavg"], [], "named twice"),
        (["fedavg"], ["algorithm=scaffold"], "algorithm=... is for one run"),
        (["fedavg"], ["seeds=0"], "compare.seeds is 0"),
        (["fedavg"], ["seeds=-2"], "compare.seeds is -2"),
        (["fedavg"], ["seeds=many"], "compare.seeds is 'many'"),
        (["fedavg"], ["seeds=1.5"], "compare.seeds is 1.5"),
        (["fedavg"], ["seeds=true"], "compare.seeds is True"),
        (["fedavg"], ["seeds=1", "seeds=2"], "given twice"),
        (["fedavg"], ["target=high"], "compare.target is 'high'"),
        (["fedavg"], ["roundz=3"], "did you mean 'rounds'?"),
        (["fedavg"], ["lr=-1"], "local.lr"),
        (["fedavg", "fedsgd"], ["epochs=3"], "FedSGD"),
        (["no.py:Mine"], [], "no.py'; algorithm=FILE.py:CLASS needs the path of a Python file"),
    ],
)
def test_a_mistake_is_found_before_the_first_run_starts(names: list[str], overrides: list[str], said: str):
    assert said in error_of(names, None, overrides)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[compare]\nalgoritms = ['fedavg']\n", "did you mean 'algorithms'?"),
        ("compare = 3\n", "must be a table"),
        ("[compare]\nalgorithms = 'fedavg'\n", "compare.algorithms"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavgg = { lr = 1 }\n", "did you mean 'fedavg'?"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = { lrr = 1 }\n", "did you mean 'lr'?"),
        (
            "[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = { lr = 'x' }\n",
            "local.lr must be a number",
        ),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = 3\n", "compare.settings.fedavg"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings.fedavg]\nalgorithm = 'scaffold'\n", "algorithm"),
        ("[local]\nlrr = 2\n[compare]\nalgorithms = ['fedavg']\n", "did you mean 'lr'?"),
    ],
)
def test_a_mistake_in_the_file_is_found_before_the_first_run_starts(tmp_path: Path, text: str, said: str):
    assert said in error_of([], written(tmp_path, text), [])


MINE = """
from dataclasses import dataclass
from driftless.algorithms import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    pass
"""


def test_classes_of_the_same_name_in_files_of_the_same_name_are_all_compared(tmp_path):
    names = [f"{tmp_path / folder / 'my.py'}:Mine" for folder in ("a", "b", "c")]
    for name in names:
        file = Path(name.rpartition(":")[0])
        file.parent.mkdir()
        file.write_text(MINE)
    comparison = plan(names, None, [*words(), "seeds=1"])
    assert [run.config.algorithm.name for run in comparison.runs.values()] == names
    assert list(comparison.runs) == ["my-Mine/seed-0", "my-Mine-2/seed-0", "my-Mine-3/seed-0"]


def test_one_class_by_two_spellings_of_its_file_is_named_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(MINE)
    assert "named twice" in error_of(["my.py:Mine", f"{tmp_path}/my.py:Mine"], None, [])


# The folder


def test_a_folder_with_the_same_settings_is_continued_and_one_with_others_refused(tmp_path):
    folder = tmp_path / "compared"
    prepare_folder(plan(NAMES, None, SETTINGS), folder)
    prepare_folder(plan(NAMES, None, SETTINGS), folder)
    before = sorted(path for path in folder.rglob("*"))
    for other in (plan(NAMES, None, [*SETTINGS, "lr=0.2"]), plan(NAMES[:1], None, SETTINGS)):
        with pytest.raises(InputError, match="holds a comparison with other settings"):
            prepare_folder(other, folder)
    assert sorted(path for path in folder.rglob("*")) == before


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        prepare_folder(plan(NAMES, None, SETTINGS), tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "notes.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path / "notes.txt", tmp_path / "notes.txt" / "below"):
        with pytest.raises(InputError, match=r"notes\.txt"):
            prepare_folder(plan(NAMES, None, SETTINGS), place)


def test_the_plan_of_a_folder_reads_back_as_it_was(tmp_path):
    comparison = plan(NAMES, None, [*SETTINGS, "target=0.7"])
    prepare_folder(comparison, tmp_path / "compared")
    stored = read_comparison(tmp_path / "compared")
    assert stored.target == 0.7
    assert {n: r.config for n, r in stored.runs.items()} == {n: r.config for n, r in comparison.runs.items()}


# Running it


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison's runs, made one by one in this process."""
    folder = tmp_path_factory.mktemp("reference") / "compared"
    comparison = plan(NAMES, None, SETTINGS)
    prepare_folder(comparison, folder)
    for name, resolved in comparison.runs.items():
        start(resolved, folder / name)
    return folder


def assert_same_comparison(one: Path, other: Path) -> None:
    runs = list(read_comparison(one).runs)
    assert runs == list(read_comparison(other).runs)
    for name in runs:
        assert_same_run(one / name, other / name)


def test_two_jobs_give_the_results_of_one_run_after_the_other(tmp_path, reference):
    heard: list[int] = []
    runs = execute(plan(NAMES, None, SETTINGS), tmp_path / "compared", heard.append, 2)
    assert [run.path.parent.name for run in runs] == ["fedavg", "fedavg", "scaffold", "scaffold"]
    assert heard == sorted(heard)
    assert heard[-1] == 40
    assert_same_comparison(reference, tmp_path / "compared")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_one_job_runs_in_this_process_and_gives_the_same(tmp_path, reference):
    progress: list[int] = []
    execute(plan(NAMES, None, SETTINGS), tmp_path / "compared", progress.append, 1)
    assert progress == [*range(1, 41), 40]
    assert_same_comparison(reference, tmp_path / "compared")


def test_a_finished_comparison_is_shown_and_not_run_again(reference, monkeypatch, capsys):
    before = contents(reference)
    again = command(monkeypatch, capsys, "compare", *NAMES, *SETTINGS, f"output={reference}", "--json")
    resumed = command(monkeypatch, capsys, "resume", reference, "--json")
    assert (again.code, resumed.code) == (0, 0)
    assert again.out == resumed.out
    shown = json.loads(again.out)
    assert shown["directory"] == str(reference)
    assert sorted((row["algorithm"], row["seeds"]) for row in shown["algorithms"]) == [("fedavg", 2), ("scaffold", 2)]
    assert contents(reference) == before


def test_the_output_that_the_file_names_is_used(tmp_path, reference, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, f"[run]\noutput = '{reference}'\n[compare]\nalgorithms = ['fedavg', 'scaffold']\n")
    ended = command(monkeypatch, capsys, "compare", file, *SETTINGS, "--json")
    assert json.loads(ended.out)["directory"] == str(reference)


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_jobs_are_at_least_one(reference, monkeypatch, capsys, jobs):
    for words_ in (("compare", *NAMES, *SETTINGS, f"output={reference}"), ("resume", reference)):
        ended = command(monkeypatch, capsys, *words_, "--jobs", jobs)
        assert ended.code == 2
        assert "jobs" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_saves_all_runs_and_the_whole_is_resumed_to_the_same_bits(
    tmp_path, reference, monkeypatch, capsys, jobs
):
    """The signal goes to the processes of the jobs, too, as it does in a terminal."""
    folder = tmp_path / "compared"
    with process("compare", *NAMES, *SETTINGS, f"output={folder}", "--jobs", jobs) as child:
        first = folder / "fedavg" / "seed-0"
        wait_until(lambda: lines(first) >= 3, child)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"continue with: driftless resume {folder}" in err
    assert "Traceback" not in err
    begun = [folder / name for name in list(read_comparison(folder).runs) if (folder / name / "config.toml").exists()]
    unfinished = [run for run in begun if not (run / "result.json").exists()]
    for run in unfinished:
        assert (run / "checkpoint" / f"manifest-{lines(run):08d}.json").exists() or lines(run) == 0
    assert len(begun) < 4 or unfinished
    assert all(lines(run) == 10 for run in begun if run not in unfinished)
    assert command(monkeypatch, capsys, "resume", folder, "--jobs", "1", "--quiet").code == 0
    assert_same_comparison(reference, folder)


def processes_of_jobs(parent: int) -> list[int]:
    children = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return [pid for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


LONG = [*words("rounds=400", "epochs=3", "batch_size=20", "checkpoint_every=4"), "seeds=1"]


@pytest.mark.parametrize(("jobs", "group"), [("1", False), ("2", True)], ids=["one process", "all of several"])
def test_sigterm_saves_all_runs_and_exits_as_ctrl_c_does(tmp_path: Path, jobs: str, group: bool):
    folder = tmp_path / "compared"
    with process("compare", *NAMES, *LONG, f"output={folder}", "--jobs", jobs, "--quiet") as child:
        begun = [folder / name / "seed-0" for name in NAMES[: int(jobs)]]
        wait_until(lambda: all(lines(run) >= 3 for run in begun), child)
        (os.killpg if group else os.kill)(child.pid, signal.SIGTERM)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == f"stopped; continue with: driftless resume {folder}\n"
    for run in begun:
        assert (run / "checkpoint" / f"manifest-{lines(run):08d}.json").exists()


def test_a_process_of_a_comparison_that_is_killed_is_reported_and_the_whole_resumed(
    tmp_path, reference, monkeypatch, capsys
):
    folder = tmp_path / "compared"
    with process("compare", *NAMES, *SETTINGS, f"output={folder}", "--jobs", "2", "--quiet") as child:
        wait_until(lambda: lines(folder / "fedavg" / "seed-0") >= 3, child)
        os.kill(processes_of_jobs(child.pid)[0], signal.SIGKILL)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 4
    assert "a process was killed, perhaps for lack of memory" in err
    assert f"Continue with: driftless resume {folder}" in err
    assert "Traceback" not in err
    assert command(monkeypatch, capsys, "resume", folder, "--jobs", "1", "--quiet").code == 0
    assert_same_comparison(reference, folder)


def test_a_second_ctrl_c_ends_at_once_and_says_what_is_lost(tmp_path: Path):
    """Rounds of many seconds, so that the first one is still waiting."""
    folder = tmp_path / "compared"
    settings = [*words("rounds=3", "epochs=20000", "batch_size=20"), "seeds=1", f"output={folder}"]
    with process("compare", *NAMES, *settings, "--jobs", "2", "--quiet") as child:
        runs = [folder / name / "seed-0" for name in NAMES]
        wait_until(lambda: all((run / "checkpoint").exists() for run in runs), child)
        for _ in range(2):
            os.killpg(child.pid, signal.SIGINT)
            time.sleep(1)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert err == (
        "stopped at once; rounds since the last checkpoints are played again; continue with: "
        f"driftless resume {folder}\n"
    )


def test_ctrl_c_while_the_workers_are_still_starting_prints_no_traceback(tmp_path):
    folder = tmp_path / "compared"
    with process("compare", *NAMES, *SETTINGS, f"output={folder}", "--jobs", "2", "--quiet") as child:
        wait_until(lambda: a_worker_imports_torch(child.pid), child)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == f"stopped; continue with: driftless resume {folder}\n"


def a_worker_imports_torch(parent: int) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group == parent != int(folder.name) and "libtorch" in (folder / "maps").read_text():
                return True
        except (OSError, IndexError):
            continue  # it has just ended
    return False


def test_a_killed_comparison_leaves_no_process_and_is_resumed_to_the_same_bits(
    tmp_path, reference, monkeypatch, capsys
):
    folder = tmp_path / "compared"
    with process("compare", *NAMES, *SETTINGS, f"output={folder}", "--jobs", "2", "--quiet") as child:
        wait_until(lambda: lines(folder / "fedavg" / "seed-0") >= 3, child)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
        ended = command(monkeypatch, capsys, "resume", folder, "--jobs", "1", "--quiet")
        assert ended.code == 0, ended.err
        assert_same_comparison(reference, folder)
        deadline = time.monotonic() + 10
        while group_is_alive(child.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not group_is_alive(child.pid)


def group_is_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_that_cannot_be_resumed_stops_the_comparison_with_its_error(tmp_path):
    comparison = plan(["fedavg"], None, [*words("rounds=2"), "seeds=1"])
    run = tmp_path / "compared" / "fedavg" / "seed-0"
    prepare_folder(comparison, tmp_path / "compared")
    start(comparison.runs["fedavg/seed-0"], run)
    (run / "result.json").unlink()
    for file in (run / "checkpoint").glob("server-*"):
        file.write_bytes(b"damaged")
    with pytest.raises(InputError, match="no checkpoint in"):
        execute(comparison, tmp_path / "compared", lambda _: None, 1)


@pytest.mark.parametrize("rounds", [14, 5], ids=["without a finite update", "with a loss of 1e23"])
def test_a_run_that_diverges_does_not_stop_the_others(tmp_path, monkeypatch, capsys, rounds):
    diverging = f"{{ weight_decay = 1e7, batch_size = 100, rounds = {rounds} }}"
    file = written(tmp_path, f"[compare.settings]\nfedavg = {diverging}\n")
    folder = tmp_path / "compared"
    changes = [word for word in words() if not word.startswith(("rounds", "batch_size"))]
    ended = command(
        monkeypatch,
        capsys,
        "compare",
        *NAMES,
        file,
        *changes,
        "seeds=1",
        "target=0.1",
        f"output={folder}",
        "--jobs",
        "1",
    )
    assert ended.code == 0, ended.err
    results = {n: json.loads((folder / n / "seed-0" / "result.json").read_text())["status"] for n in NAMES}
    assert results == {"fedavg": "diverged", "scaffold": "finished"}
    assert "diverged" in ended.out
    assert f"next: driftless report {folder}" in ended.out


def test_what_the_runs_share_and_in_what_they_differ_is_shown_before_them_and_when_they_are_resumed(
    reference, tmp_path, monkeypatch, capsys
):
    shutil.copytree(reference, tmp_path / "compared")
    ended = command(monkeypatch, capsys, "resume", tmp_path / "compared")
    shared, _, algorithms, weighting = ended.err.splitlines()
    assert shared == "10 rounds; cohort 5 of 20; local: 3 epochs of batches of 20, lr 0.1"
    assert algorithms == "fedavg (server_lr=1); scaffold (option=2, server_lr=1)"
    assert weighting == "weighted by examples (fedavg); weighted uniformly (scaffold)"
    for option in ("--quiet", "--json"):
        assert command(monkeypatch, capsys, "resume", tmp_path / "compared", option).err == ""


def test_a_planned_run_says_where_its_settings_came_from(tmp_path):
    comparison = plan([], written(tmp_path, TABLE), ["rounds=3"])
    prepare_folder(comparison, tmp_path / "compared")
    text = (tmp_path / "compared" / "fedavg" / "seed-0" / "planned.toml").read_text()
    assert text == to_toml(comparison.runs["fedavg/seed-0"])
    assert "# command line" in text


def test_the_runs_of_the_reference_have_results(reference):
    assert all(b'"finished"' in timeless(reference / n / "result.json") for n in list(read_comparison(reference).runs))


def test_a_plan_leaves_to_each_run_what_the_engine_decides(tmp_path):
    comparison = plan(["fedavg"], None, ["rounds=2", "seeds=1"])
    assert comparison.runs["fedavg/seed-0"].config.engine.kind == "auto"
    (stored,) = execute(comparison, tmp_path / "compared", lambda _: None, 1)
    assert stored.config.engine.kind in ("single", "block")
    assert "# decided at the start" in (stored.path / "config.toml").read_text()
