"""A run is a directory: what it holds, that nothing is overwritten, who may write it, and when it stops."""

from __future__ import annotations

import json
import math
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import driftless
from driftless.config.build import simulation_of
from driftless.config.resolution import resolve, with_values
from driftless.engine.evaluation_settings import Monitor
from driftless.errors import InputError
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun, default_directory, find_runs, set_aside
from driftless.runs.run import Interrupted, fingerprint, stop_reason
from driftless.runs.run import resume as resume_run
from driftless.runs.run import start as start_run
from runs.runs import (
    DIVERGING,
    AfterRound,
    Records,
    assert_same_run,
    lines,
    process,
    resume,
    small,
    start,
    timeless,
    wait_until,
    words,
)


def strict(text: str) -> Any:
    """JSON as the standard defines it: without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


# What a run directory holds


def test_a_run_leaves_its_configuration_environment_metrics_events_checkpoint_and_result(tmp_path):
    start(tmp_path / "run", "algorithm=adabest", "seed=3")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    expected = {"config.toml", "environment.json", "federation.json", "metrics.jsonl", "events.jsonl", "checkpoint"}
    expected |= {"result.json", "fingerprint.json", "model.safetensors"}
    assert expected <= names <= expected | {"lock"}


def test_the_stored_configuration_is_the_resolved_one_with_what_was_decided_at_the_start(tmp_path):
    resolved = small("algorithm=adabest", "engine=auto", "seed=3")
    stored = start_run(resolved, tmp_path / "run")
    engine = stored.config.engine
    assert (engine.kind, engine.block_size, engine.threads, engine.workers) == ("block", 5, 1, 1)
    assert stored.config.run.evaluate_every == 1
    assert (stored.config.evaluate.monitor, stored.config.evaluate.mode) == ("test_accuracy", "max")
    decided = {name: getattr(resolved.config, name) for name in ("engine", "run", "evaluate")}
    assert stored.config.model_copy(update=decided) == resolved.config
    text = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    decided = [line for line in text.splitlines() if line.startswith("kind =")]
    assert decided[0].endswith("# decided at the start")


def test_the_environment_says_versions_commit_processor_and_threads(tmp_path):
    environment = start(tmp_path / "run", "rounds=1").environment
    assert environment["driftless"] == driftless.__version__
    assert environment["torch"] == torch.__version__
    assert environment["numpy"] == np.__version__
    assert environment["threads"] == torch.get_num_threads()
    assert environment["cores"] >= 1
    assert environment["cpu"]
    assert isinstance(environment["command"], list)
    assert environment["commit"] is None or len(environment["commit"].rstrip("+")) == 12
    assert {"python", "platform", "started", "safetensors"} <= environment.keys()


def test_the_metrics_have_one_whole_line_a_round_as_soon_as_the_round_is_over(tmp_path):
    seen: list[int] = []
    look = AfterRound(range(1, 9), lambda: seen.append(lines(tmp_path / "run")))
    stored = start(tmp_path / "run", callbacks=[look])
    assert seen == list(range(1, 9))
    assert [row["round"] for row in stored.rows] == seen


def test_the_result_sums_up_the_rows(tmp_path):
    stored = start(tmp_path / "run", "rounds=14", "evaluate_every=1")
    result, rows = stored.result, stored.rows
    assert result is not None
    assert (result["status"], result["reason"], result["rounds"]) == ("finished", None, 14)
    assert result["final"] == rows[-1]
    accuracies = [row["test_accuracy"] for row in rows]
    assert result["best_test_accuracy"] == max(accuracies)
    assert result["last_test_accuracy"] == pytest.approx(np.mean(accuracies[-10:]))
    assert result["norm_x"] == rows[-1]["norm_x"]
    assert result["seconds"] == pytest.approx(sum(row["seconds"] for row in rows))


@pytest.mark.parametrize(("every", "evaluated"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [3, 5]), (9, [5]), (0, [])])
def test_the_test_set_is_evaluated_every_so_many_rounds_and_after_the_last(tmp_path, every, evaluated):
    stored = start(tmp_path / "run", "rounds=5", f"evaluate_every={every}")
    assert [row["round"] for row in stored.rows if "test_accuracy" in row] == evaluated
    assert [row["round"] for row in stored.rows if "test_loss" in row] == evaluated
    assert (stored.result or {})["best_test_accuracy"] == max(
        (row["test_accuracy"] for row in stored.rows if "test_accuracy" in row), default=None
    )


def test_clients_left_out_and_lost_rounds_are_events(tmp_path):
    heard = Records()
    stored = start(tmp_path / "run", *DIVERGING, callbacks=[heard])
    assert stored.events == [{"round": e.round, "what": e.what, "clients": list(e.clients)} for e in heard.events]
    assert [event["round"] for event in stored.events if "round lost" in event["what"]] == [7, 8, 9]
    skipped: dict[int, int] = {row["round"]: row["skipped"] for row in stored.rows if row["skipped"]}
    assert {e["round"]: len(e["clients"]) for e in stored.events if e["clients"]} == skipped


def test_every_file_is_json_as_the_standard_defines_it_also_when_numbers_overflow(tmp_path):
    stored = start(tmp_path / "run", *DIVERGING)
    for line in (stored.path / "metrics.jsonl").read_text().splitlines():
        strict(line)
    strict((stored.path / "result.json").read_text())


def test_a_run_without_a_test_set_has_no_accuracy(tmp_path):
    changes = ["data=linear-regression", "model=linear", "data.clients=8", "rounds=3"]
    stored = start(tmp_path / "run", *changes)
    assert all("test_accuracy" not in row and "train_accuracy" not in row for row in stored.rows)
    assert (stored.result or {})["best_test_accuracy"] is None


def test_callbacks_hear_the_start_every_round_and_the_end(tmp_path):
    heard = Records()
    stored = start(tmp_path / "run", callbacks=[heard])
    assert heard.first_rounds == [1]
    assert [dict(record.metrics) for record in heard.records] == stored.rows
    assert heard.results == [stored.result]


def test_runs_are_found_below_folders_in_the_order_of_their_names(tmp_path):
    for name in ("b/two", "a/one", "b/one"):
        start(tmp_path / name, "rounds=1")
    assert [run.path for run in find_runs([tmp_path])] == [tmp_path / n for n in ("a/one", "b/one", "b/two")]
    both = [run.path for run in find_runs([tmp_path / "b", tmp_path])]
    assert both == [tmp_path / n for n in ("b/one", "b/two", "a/one")]
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(InputError, match="no run at or below"):
            find_runs([nothing])


# Nothing is overwritten silently


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_is_neither_run_again_nor_resumed(tmp_path):
    start(tmp_path / "run")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"holds a finished run.*--again"):
        start(tmp_path / "run", "algorithm=scaffold")
    with pytest.raises(InputError, match="has ended already; look at it with: driftless report"):
        resume(tmp_path / "run")
    assert contents(tmp_path) == before


def test_an_unfinished_run_is_not_started_again_and_the_error_says_how_to_resume(tmp_path):
    unfinished(tmp_path / "run")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"driftless resume {tmp_path / 'run'}"):
        start(tmp_path / "run")
    assert contents(tmp_path) == before


def unfinished(directory: Path, *changes: str, round: int = 5) -> None:
    """A run as it is when its process is killed after that round's line was written."""
    whole = directory.with_name(f"{directory.name} whole")
    start(whole, *changes, callbacks=[AfterRound([round], lambda: shutil.copytree(whole, directory))])


def test_an_old_run_is_set_aside_under_a_name_that_is_free(tmp_path):
    for name in ("run.old", "run.old-2", "run.old-3"):
        start(tmp_path / "run", "rounds=1")
        before = contents(tmp_path / "run")
        assert set_aside(tmp_path / "run") == tmp_path / name
        kept = contents(tmp_path / name)
        assert {file: kept[file] for file in before if file != "lock"} == {
            f: c for f, c in before.items() if f != "lock"
        }
    assert set_aside(tmp_path / "run") is None


@pytest.mark.parametrize("file", ["config.toml", "metrics.jsonl", "environment.json", "federation.json", "result.json"])
def test_a_file_of_the_user_in_the_output_folder_is_not_overwritten(tmp_path: Path, file: str):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / file).write_text("# my own\n")
    with pytest.raises(InputError, match="mine"):
        start(tmp_path / "mine", "rounds=1")
    assert (tmp_path / "mine" / file).read_text() == "# my own\n"


def test_a_mistake_is_found_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"local\.lr"):
        start(tmp_path / "run", "lr=-1")
    assert list(tmp_path.iterdir()) == []


def test_default_directories_say_what_they_hold_and_are_never_used_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = small("algorithm=adabest", "seed=3").config
    assert default_directory(config) == Path("runs/digits-adabest-seed3")
    Path("runs/digits-adabest-seed3").mkdir(parents=True)
    assert default_directory(config) == Path("runs/digits-adabest-seed3-2")


# One process at a time


def test_two_processes_cannot_write_the_same_run_and_a_killed_one_leaves_no_lock(tmp_path):
    run = tmp_path / "run"
    changes = words("rounds=2000", f"output={run}", "epochs=5")
    with process("run", *changes, "--quiet") as holder:
        wait_until(lambda: lines(run) >= 3, holder)
        for attempt in (lambda: resume(run), lambda: set_aside(run)):
            with pytest.raises(InputError, match=rf"another process \(pid {holder.pid}\) is writing the run"):
                attempt()
        with pytest.raises(InputError, match="has not ended"):
            start(run)
        assert holder.poll() is None
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(timeout=30) == -signal.SIGKILL
    text = (run / "config.toml").read_text(encoding="utf-8").replace("rounds = 2000", "rounds = 12")
    (run / "config.toml").write_text(text, encoding="utf-8")
    for manifest in (run / "checkpoint").glob("manifest-*.json"):
        manifest.unlink()
    assert len(resume(run).rows) == 12


def test_a_run_cannot_be_resumed_twice_within_one_process_either(tmp_path):
    unfinished(tmp_path / "run")
    refused: list[str] = []

    class Again(Callback):
        def on_round(self, record: Any) -> None:
            with pytest.raises(InputError) as caught:
                resume(tmp_path / "run")
            refused.append(str(caught.value))

    resume_run(tmp_path / "run", [Again()])
    assert len(refused) == 5
    assert "is writing the run" in refused[0]


# Ctrl-C


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_after_the_round_and_saves_it(tmp_path: Path, number: signal.Signals):
    run = tmp_path / "run"
    before = signal.getsignal(number)
    stop = AfterRound([4], lambda: signal.raise_signal(number))
    with pytest.raises(Interrupted) as caught:
        start(run, "algorithm=scaffold", callbacks=[stop])
    assert str(caught.value) == f"stopped after round 4; continue with: driftless resume {run}"
    assert signal.getsignal(number) is before
    assert lines(run) == 4
    assert (run / "checkpoint" / "manifest-00000004.json").exists()
    assert not (run / "result.json").exists()
    heard = Records()
    resume_run(run, [heard])
    assert heard.first_rounds == [5]
    start(tmp_path / "whole", "algorithm=scaffold")
    assert_same_run(tmp_path / "whole", run)


def test_a_second_interrupt_ends_at_once(tmp_path):
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=f"stopped at once.*played again by: driftless resume {tmp_path}/run"):
        start(tmp_path / "run", callbacks=[AfterRound([4], twice)])
    resume(tmp_path / "run")
    start(tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_an_interrupt_in_the_last_round_lets_the_run_end(tmp_path):
    stored = start(tmp_path / "run", callbacks=[AfterRound([8], lambda: signal.raise_signal(signal.SIGINT))])
    assert (stored.result or {})["status"] == "finished"


def test_ctrl_c_in_a_terminal_saves_prints_the_command_that_continues_and_exits_with_130(tmp_path):
    run = tmp_path / "run"
    with process("run", *words("algorithm=adabest", "rounds=300", "epochs=5", f"output={run}")) as child:
        wait_until(lambda: lines(run) >= 3, child)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out == ""
    assert f"stopped after round {lines(run)}; continue with: driftless resume {run}" in err
    assert "Traceback" not in err
    assert 3 <= lines(run) < 300
    assert (run / "checkpoint" / f"manifest-{lines(run):08d}.json").exists()


# Its directory


@pytest.mark.parametrize("put", ["nothing", "another folder"])
def test_a_directory_that_is_renamed_during_the_run_is_noticed_and_nothing_written_elsewhere(tmp_path: Path, put: str):
    def rename() -> None:
        (tmp_path / "run").rename(tmp_path / "new")
        if put == "another folder":
            (tmp_path / "run").mkdir()

    with pytest.raises(InputError, match=r"run' was renamed or removed.*resume NEW-NAME"):
        start(tmp_path / "run", "algorithm=scaffold", "checkpoint_every=4", callbacks=[AfterRound([5], rename)])
    assert not (tmp_path / "run").exists() or list((tmp_path / "run").iterdir()) == []
    resume(tmp_path / "new")
    start(tmp_path / "whole", "algorithm=scaffold", "checkpoint_every=4")
    assert_same_run(tmp_path / "whole", tmp_path / "new")


def test_a_directory_that_is_renamed_just_before_a_checkpoint_is_noticed(tmp_path: Path):
    rename = AfterRound([8], lambda: (tmp_path / "run").rename(tmp_path / "new"))
    with pytest.raises(InputError, match=r"run' was renamed or removed"):
        start(tmp_path / "run", callbacks=[rename])
    assert not (tmp_path / "run").exists()


# When a run stops


def test_a_run_stops_when_it_reaches_the_target(tmp_path):
    whole = start(tmp_path / "whole", "rounds=12", "lr=0.5")
    target = whole.rows[6]["test_accuracy"]
    first = next(row["round"] for row in whole.rows if row["test_accuracy"] >= target)
    assert 1 < first < 12
    stored = start(tmp_path / "run", "rounds=12", "lr=0.5", f"target={target}", "stop_at_target=true")
    assert (stored.result or {})["status"] == "stopped"
    assert (stored.result or {})["reason"].endswith(f"reached the target {target:g}")
    assert len(stored.rows) == (stored.result or {})["rounds"] == first
    assert (stored.path / "checkpoint" / f"manifest-{first:08d}.json").exists()
    ignored = start(tmp_path / "ignored", "rounds=12", "lr=0.5", f"target={target}")
    assert len(ignored.rows) == 12


def test_a_run_stops_when_its_patience_is_at_an_end(tmp_path):
    stored = start(tmp_path / "run", "lr=1e-9", "rounds=20", "patience=3", "evaluate_every=2")
    assert [row["round"] for row in stored.rows if "test_accuracy" in row] == [2, 4, 6, 8]
    assert (stored.result or {})["status"] == "stopped"
    assert "in the last 3 evaluations" in (stored.result or {})["reason"]


@given(
    st.lists(st.one_of(st.none(), st.sampled_from([0.1, 0.2, 0.3, 0.4])), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.sampled_from([0.2, 0.35])),
)
def test_the_stopping_rules_are_what_their_words_say(accuracies, patience, target):
    settings = [
        f"patience={patience}".lower(),
        f"target={target}".lower(),
        f"stop_at_target={target is not None}".lower(),
    ]
    rows = [{"round": t} if a is None else {"round": t, "test_accuracy": a} for t, a in enumerate(accuracies, 1)]
    reason = stop_reason(resolve(None, settings).config, Monitor("test_accuracy", "max"), rows)
    measured = [a for a in accuracies if a is not None]
    reached = target is not None and accuracies[-1] is not None and accuracies[-1] >= target
    improved_at = next((i for i, a in enumerate(measured) if a == max(measured)), None)
    tired = (
        patience is not None
        and accuracies[-1] is not None
        and improved_at is not None
        and len(measured) - 1 - improved_at >= patience
    )
    assert (reason is not None) == (reached or tired)


STOPPING = {
    "target": ["rounds=20", "lr=0.2", "target=0.65", "stop_at_target=true"],
    "patience": ["rounds=20", "lr=1e-9", "patience=5"],
    "divergence": DIVERGING,
}


@pytest.mark.parametrize("kind", STOPPING)
def test_a_run_that_is_killed_before_it_stops_decides_the_same_when_resumed(tmp_path: Path, kind: str):
    whole = tmp_path / "whole"
    rounds = [2, 3, 5, 8] if kind == "divergence" else [2, 3, 5]
    copies = [tmp_path / f"killed in round {t}" for t in rounds]
    cuts = [AfterRound([t], lambda c=c: shutil.copytree(whole, c)) for t, c in zip(rounds, copies, strict=True)]
    stored = start(whole, *STOPPING[kind], "checkpoint_every=2", callbacks=cuts)
    assert (stored.result or {})["status"] == ("diverged" if kind == "divergence" else "stopped")
    assert 5 < len(stored.rows) < 14
    for copy in copies:
        resume(copy)
        assert timeless(copy / "metrics.jsonl") == timeless(whole / "metrics.jsonl")
        assert timeless(copy / "result.json") == timeless(whole / "result.json")


@pytest.mark.parametrize("kind", STOPPING)
def test_a_run_that_is_killed_just_before_its_result_is_written_decides_the_same(tmp_path: Path, kind: str):
    run = tmp_path / "run"
    start(run, *STOPPING[kind], "checkpoint_every=1")
    before = {name: timeless(run / name) for name in ("result.json", "metrics.jsonl", "events.jsonl")}
    (run / "result.json").unlink()
    resume(run)
    assert {name: timeless(run / name) for name in before} == before


def test_a_run_that_is_killed_after_its_last_round_gets_its_result(tmp_path):
    run = tmp_path / "run"
    start(run)
    before = timeless(run / "result.json")
    (run / "result.json").unlink()
    resume(run)
    assert timeless(run / "result.json") == before


def test_a_diverged_run_ends_with_its_reason_after_three_lost_rounds(tmp_path):
    stored = start(tmp_path / "run", *DIVERGING)
    result, rows = stored.result or {}, stored.rows
    lost = [row["round"] for row in rows if "train_loss" not in row]
    assert result["status"] == "diverged"
    assert lost == [7, 8, 9]
    assert len(rows) == 9
    assert "diverged at round 7" in result["reason"]
    assert "Try" in result["reason"]


def test_a_callback_may_stop_a_run_and_says_why(tmp_path):
    class Enough(Callback):
        def on_round(self, record: Any) -> str | None:
            return "enough is enough" if record.round == 4 else None

    stored = start(tmp_path / "run", callbacks=[Enough()])
    assert (stored.result or {})["status"] == "stopped"
    assert (stored.result or {})["reason"] == "enough is enough"
    assert len(stored.rows) == 4


# Resuming what does not fit


def edit(directory: Path, old: str, new: str) -> None:
    file = directory / "config.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "fedyogi"', 'name = "fedlamb"'),  # the same tensors and options, another algorithm
        ("eps = 0.001", "eps = 0.1"),
        ('name = "logistic"', 'name = "mlp"'),
        ('precision = "float32"', 'precision = "float64"'),
        ("seed = 0", "seed = 1"),
    ],
)
def test_a_run_is_not_continued_as_another_one(tmp_path: Path, old: str, new: str):
    unfinished(tmp_path / "run", "algorithm=fedyogi")
    before = contents(tmp_path / "run" / "checkpoint")
    edit(tmp_path / "run", old, new)
    with pytest.raises(InputError, match=r"config\.toml"):
        resume(tmp_path / "run")
    assert contents(tmp_path / "run" / "checkpoint") == before


def test_the_label_of_a_run_does_not_make_it_another_run():
    one, other, unlike = (small(*changes).config for changes in ((), ("label=mine",), ("lr=0.2",)))
    assert fingerprint(one) == fingerprint(other) != fingerprint(unlike)


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "x" * 61, "\x1b[31m"])
def test_a_label_is_one_line_that_can_be_shown(label: str):
    changed = with_values(small(), {"run.label": label}, "here")
    with pytest.raises(InputError, match=r"run\.label must be a line of 1 to 60 characters"):
        simulation_of(changed.config)


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InputError, match="is not a run directory"):
            resume(path)


def test_a_stored_run_reads_as_not_ended_while_a_last_line_is_half_written(tmp_path):
    unfinished(tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"round": 6, "lr": 0.')
    stored = StoredRun(tmp_path / "run")
    assert stored.result is None
    assert [row["round"] for row in stored.rows] == [1, 2, 3, 4, 5]
    assert stored.seed == 0


def test_simulated_numbers_are_finite_in_an_ordinary_run(tmp_path):
    for row in start(tmp_path / "run", "algorithm=adabest").rows:
        assert all(math.isfinite(number) for number in row.values())
