"""The folder of a comparison: written as a whole, run over processes, killed and resumed as a whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from driftless.compare import comparison_above, execute, plan, prepare_folder, read_comparison
from driftless.config.resolution import to_toml
from driftless.errors import InputError
from driftless.runs.run import start
from runs.runs import assert_same_run, command, lines, process, timeless, wait_until, words

NAMES = ["fedavg", "scaffold"]
SETTINGS = [*words("rounds=10", "epochs=3", "batch_size=20", "checkpoint_every=4"), "seeds=2"]
"""Runs of 20 ms a round: long enough to be interrupted."""


def written(folder: Path, text: str) -> Path:
    file = folder / "compared.toml"
    file.write_text(text, encoding="utf-8")
    return file


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
    return [pid for pid in children if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text()]


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
    shared, _, algorithms, weighting, memory = ended.err.splitlines()
    assert shared == "10 rounds; cohort 5 of 20; local: 3 epochs of batches of 20, lr 0.1"
    assert algorithms == "fedavg (server_lr=1); scaffold (option=2, server_lr=1, size_adaptive=False)"
    assert weighting == "weighted by examples (fedavg); weighted uniformly (scaffold)"
    assert "for the state of 20 clients" in memory
    for option in ("--quiet", "--json"):
        assert command(monkeypatch, capsys, "resume", tmp_path / "compared", option).err == ""


def test_a_planned_run_says_where_its_settings_came_from(tmp_path):
    text = "[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = { lr = 0.5 }\n"
    comparison = plan([], written(tmp_path, text), ["rounds=3"])
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


SWEEP = [*words("rounds=2", "partition=dirichlet"), "seeds=2", "sweep.data.alpha=[0.5,5]"]


def test_the_runs_of_a_sweep_are_in_folders_of_cells_and_are_resumed_as_a_whole(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "swept"
    compared = ["fedavg", "weak=fedprox,mu=0.01"]
    comparison = plan(compared, None, SWEEP)
    prepare_folder(comparison, folder)
    first = ["alpha=0.5/fedavg/seed-0", "alpha=0.5/weak/seed-1"]
    for name in first:
        start(comparison.runs[name], folder / name)
    before = [contents(folder / name) for name in first]
    resumed = command(monkeypatch, capsys, "resume", folder, "--jobs", "1")
    assert resumed.code == 0, resumed.err
    assert resumed.out.startswith("2 algorithms x 2 cells x 2 seeds: 8 runs\n")
    assert [contents(folder / name) for name in first] == before
    runs = sorted(str(file.parent.relative_to(folder)) for file in folder.rglob("result.json"))
    cells = [f"alpha={a}/{name}/seed-{s}" for a in ("0.5", "5") for name in ("fedavg", "weak") for s in (0, 1)]
    assert runs == cells
    assert read_comparison(folder).sweep == ("data.alpha",)
    assert prepare_folder(comparison, folder) is None
    titles = [line.split()[0] for line in resumed.out.splitlines() if line.startswith("alpha=")]
    assert titles == ["alpha=0.5", "alpha=5"]
    again = command(monkeypatch, capsys, "compare", *compared, *SWEEP, f"output={folder}", "--json")
    shown = json.loads(again.out)
    assert shown["cells"] == [
        {"name": "alpha=0.5", "settings": {"data.alpha": 0.5}},
        {"name": "alpha=5", "settings": {"data.alpha": 5}},
    ]
    rows = sorted((row["cell"], row["curve"], row["algorithm"], row["seeds"]) for row in shown["algorithms"])
    kinds = (("fedavg", "fedavg"), ("weak", "fedprox"))
    assert rows == [(cell, label, name, 2) for cell in ("alpha=0.5", "alpha=5") for label, name in kinds]
    pairs = [(each["cell"], each["curve"], each["reference"], each["seeds"]) for each in shown["differences"]]
    assert ("alpha=5", "weak", "fedavg", 2) in pairs


def test_a_comparison_of_an_earlier_version_has_no_sweep_and_is_continued(tmp_path, reference):
    file = reference / "comparison.json"
    stored = json.loads(file.read_text())
    del stored["sweep"]
    (tmp_path / "old").mkdir()
    for name in stored["runs"]:
        (tmp_path / "old" / name).mkdir(parents=True)
        planned = (reference / name / "planned.toml").read_text().splitlines()
        kept = [line for line in planned if not line.startswith("# label")]
        assert len(kept) == len(planned) - 1
        (tmp_path / "old" / name / "planned.toml").write_text("\n".join(kept))
    (tmp_path / "old" / "comparison.json").write_text(json.dumps(stored))
    assert read_comparison(tmp_path / "old").sweep == ()
    prepare_folder(plan(NAMES, None, SETTINGS), tmp_path / "old")


@pytest.mark.parametrize("sweep", ["3", '"data.alpha"', "[3]", "{}"])
def test_a_damaged_record_of_the_sweep_is_refused(tmp_path: Path, sweep: str):
    (tmp_path / "comparison.json").write_text(f'{{"runs": [], "target": null, "sweep": {sweep}}}')
    with pytest.raises(InputError, match=r"'sweep' of .* must be a list of keys"):
        read_comparison(tmp_path)


def test_a_run_finds_its_comparison_with_and_without_a_cell(tmp_path: Path):
    (tmp_path / "comparison.json").write_text("{}")
    for run in ("fedavg/seed-0", "alpha=1/fedavg/seed-0"):
        assert comparison_above(tmp_path / run) == tmp_path
    assert comparison_above(tmp_path / "a" / "b" / "c" / "seed-0") is None
    assert comparison_above(tmp_path) is None
