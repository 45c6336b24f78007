"""What trackers write is read back with the tools that people look at it with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from driftless.config.resolution import resolve
from driftless.engine.history import Record
from driftless.errors import InputError
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun
from driftless.runs.run import resume as resume_run
from driftless.runs.run import start as start_run
from driftless.runs.trackers import (
    MLflow,
    TensorBoard,
    Tracker,
    TrackerWarning,
    WandB,
    callback_from_file,
    run_id,
    tracker,
    wandb_mode,
)
from runs.runs import lines, process, wait_until

TINY = ["clients=20", "rounds=5", "cohort=5", "engine=single", "checkpoint_every=2", "algorithm=adabest"]


class Crash(Callback):
    """Ends the process's work in the middle, after the trackers have seen the round."""

    def __init__(self, round: int) -> None:
        self._round = round

    def on_round(self, record: Record) -> None:
        if record.round == self._round:
            raise ZeroDivisionError


def play(directory: Path, *callbacks: Callback, more: tuple[str, ...] = ()) -> StoredRun:
    return start_run(resolve(None, [*TINY, *more]), directory, callbacks)


def crash_and_resume(directory: Path, make: type[TensorBoard] | type[MLflow], **options: Any) -> StoredRun:
    """Round 3 is played twice: the checkpoint is of round 2."""
    with pytest.raises(ZeroDivisionError):
        play(directory, make(**options), Crash(3))
    return resume_run(directory, [make(**options)])


def measured(run: StoredRun, name: str) -> list[tuple[int, float]]:
    return [(row["round"], row[name]) for row in run.rows if name in row]


# TensorBoard


def events_of(directory: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory))
    events.Reload()
    return events


def check_events(run: StoredRun) -> None:
    events = events_of(run.path / "tensorboard")
    assert set(events.Tags()["scalars"]) == {name for row in run.rows for name in row}
    for name in ("test_accuracy", "norm_x", "train_loss"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        expected = measured(run, name)
        assert [step for step, _ in found] == [round for round, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected])


def test_tensorboard_has_every_metric_of_every_round_and_the_settings(tmp_path: Path):
    pytest.importorskip("tensorboard")
    run = play(tmp_path / "run", tracker("tensorboard"))
    check_events(run)
    texts = events_of(run.path / "tensorboard").Tags()["tensors"]
    assert {"config/text_summary", "result/text_summary"} <= set(texts)


def test_tensorboard_of_a_resumed_run_has_no_round_twice(tmp_path: Path):
    pytest.importorskip("tensorboard")
    check_events(crash_and_resume(tmp_path / "run", TensorBoard))


def test_tensorboard_writes_where_it_is_told(tmp_path: Path):
    pytest.importorskip("tensorboard")
    play(tmp_path / "run", TensorBoard(tmp_path / "events"))
    assert [event.step for event in events_of(tmp_path / "events").Scalars("round")] == [1, 2, 3, 4, 5]
    assert not (tmp_path / "run" / "tensorboard").exists()


# MLflow


def mlflow_run(uri: str) -> tuple[Any, Any]:
    """The client and the only run of the store."""
    mlflow = pytest.importorskip("mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow about the versions of its own libraries
        client = mlflow.MlflowClient(uri)
        (experiment,) = [e for e in client.search_experiments() if e.name == "driftless"]
        (run,) = client.search_runs([experiment.experiment_id])
    return client, run


def check_metrics(client: Any, found: Any, run: StoredRun) -> None:
    for name in ("test_accuracy", "norm_x", "round"):
        history = client.get_metric_history(found.info.run_id, name)
        assert [(metric.step, metric.value) for metric in history] == measured(run, name)


def test_mlflow_has_settings_metrics_tags_and_status_in_a_store_of_the_run(tmp_path: Path):
    pytest.importorskip("mlflow")
    run = play(tmp_path / "run", tracker("mlflow"))
    client, found = mlflow_run(f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    assert found.data.params["algorithm.name"] == "adabest"
    assert found.data.params["run.rounds"] == "5"
    assert "data.seed" not in found.data.params
    assert found.data.tags["driftless.commit"] == str(run.environment["commit"])
    assert found.data.tags["driftless.version"] == run.environment["driftless"]
    assert found.data.tags["mlflow.runName"] == "run"
    assert (found.info.status, found.data.tags["driftless.status"]) == ("FINISHED", "finished")
    check_metrics(client, found, run)


def test_mlflow_of_a_resumed_run_is_the_same_run_without_a_round_twice(tmp_path: Path):
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'store.db'}"
    run = crash_and_resume(tmp_path / "run", MLflow, uri=uri)
    client, found = mlflow_run(uri)
    assert json.loads((tmp_path / "run" / "mlflow.json").read_text())["run"] == found.info.run_id
    assert found.info.status == "FINISHED"
    check_metrics(client, found, run)


def test_mlflow_says_that_a_run_diverged(tmp_path: Path):
    pytest.importorskip("mlflow")
    play(tmp_path / "run", MLflow(), more=("local.lr=1e38",))
    _, found = mlflow_run(f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    assert (found.info.status, found.data.tags["driftless.status"]) == ("FAILED", "diverged")
    assert "diverged at round" in found.data.tags["driftless.reason"]
    assert any(name.startswith("event.") for name in found.data.tags)


def test_a_store_that_breaks_in_the_middle_does_not_stop_the_run(tmp_path: Path):
    pytest.importorskip("mlflow")

    class Break(Callback):
        def on_round(self, record: Record) -> None:
            if record.round == 2:
                (tmp_path / "run" / "mlflow.db").write_bytes(b"no database" * 1000)

    with pytest.warns(TrackerWarning, match="MLflow has failed and records no more") as caught:
        run = play(tmp_path / "run", MLflow(), Break())
    assert len([warning for warning in caught if warning.category is TrackerWarning]) == 1
    assert len(run.rows) == 5


def test_an_unknown_server_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.warns(TrackerWarning, match="goes on without it"):
        run = play(tmp_path / "run", MLflow("http://127.0.0.1:9"))
    assert run.result is not None
    assert run.result["status"] == "finished"


# Weights & Biases


@pytest.fixture
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The last one would share wandb's process of the tests with processes that are started here.
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_SERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


def wandb_records(directory: Path) -> list[Any]:
    """Everything in the only file of the only wandb run of a directory, which wandb's own process may still write."""
    number = json.loads((directory / "wandb.json").read_text())["run"]
    (file,) = (directory / "wandb").rglob("*.wandb")
    assert file.name == f"run-{number}.wandb"
    deadline = time.monotonic() + 60
    while True:
        records = read_wandb(file)
        if any(record.HasField("exit") for record in records):
            return records
        assert time.monotonic() < deadline, "the file is not finished"
        time.sleep(0.1)


def read_wandb(file: Path) -> list[Any]:
    datastore = pytest.importorskip("wandb.sdk.internal.datastore")
    from wandb.proto import wandb_internal_pb2

    store, records = datastore.DataStore(), []
    store.open_for_scan(str(file))
    with suppress(AssertionError):  # in the middle of a record
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            records.append(record)
    store.close()
    return records


def wandb_values(records: list[Any], kind: str) -> dict[str, Any]:
    """The last value of each key of the config or the summary."""
    parts = [record.run.config if kind == "config" else record.summary for record in records]
    updates = [update for part in parts for update in part.update]
    return {update.key: json.loads(update.value_json) for update in updates if update.key}


def check_wandb_metrics(records: list[Any], run: StoredRun) -> None:
    rows = [record.history.item for record in records if record.WhichOneof("record_type") == "history"]
    found = [{"".join(item.nested_key): json.loads(item.value_json) for item in row} for row in rows]
    for name in ("round", "test_accuracy", "norm_x"):
        assert [(row["_step"], row[name]) for row in found if name in row] == measured(run, name)


def no_process_of(pid: int) -> bool:
    """Whether wandb's own process, which is told the number of ours, has ended."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"wandb" in (words := file.read_bytes()) and str(pid).encode() in words.split(b"\0"):
                return False
    return True


@pytest.mark.usefixtures("nobody_logged_in")
def test_wandb_has_settings_metrics_and_status_in_files_of_the_run(tmp_path: Path):
    pytest.importorskip("wandb")
    run = play(tmp_path / "run", tracker("wandb"))
    records = wandb_records(tmp_path / "run")
    check_wandb_metrics(records, run)
    config = wandb_values(records, "config")
    assert (config["algorithm.name"], config["run.rounds"]) == ("adabest", 5)
    assert config["driftless.version"] == run.environment["driftless"]
    assert wandb_values(records, "summary")["driftless.status"] == "finished"


@pytest.mark.usefixtures("nobody_logged_in")
def test_wandb_says_that_a_run_diverged_and_what_happened(tmp_path: Path):
    pytest.importorskip("wandb")
    play(tmp_path / "run", WandB(), more=("local.lr=1e38",))
    records = wandb_records(tmp_path / "run")
    summary = wandb_values(records, "summary")
    assert summary["driftless.status"] == "diverged"
    assert "diverged at round" in summary["driftless.reason"]
    assert any("update not finite" in event for event in summary["driftless.events"])
    assert next(record.exit.exit_code for record in records if record.HasField("exit")) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("nobody_logged_in")
def test_wandb_of_a_killed_and_resumed_run_is_one_run_with_every_round_once_and_no_process_is_left(tmp_path: Path):
    pytest.importorskip("wandb")
    run = tmp_path / "run"
    many = [word if not word.startswith("rounds") else "rounds=100" for word in TINY]
    with process("run", *many, f"output={run}", "--track", "wandb") as child:
        wait_until(lambda: lines(run) >= 5, child)
        child.kill()
        child.wait()
        before = json.loads((run / "wandb.json").read_text())
    with process("resume", run, "--track", "wandb") as again:
        _, err = again.communicate(timeout=120)
    assert again.returncode == 0
    assert "Warning" not in err
    assert json.loads((run / "wandb.json").read_text()) == before
    check_wandb_metrics(wandb_records(run), StoredRun(run))
    deadline = time.monotonic() + 60
    while not all(no_process_of(pid) for pid in (child.pid, again.pid)):
        assert time.monotonic() < deadline, "a process of wandb is left"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("asked", "logged_in", "mode"),
    [(None, False, "offline"), (None, True, "online"), ("offline", True, "offline"), ("disabled", False, "disabled"),
     ("online", True, "online")],
)  # fmt: skip
def test_wandb_stays_here_unless_its_user_is_logged_in_or_asks(asked: str | None, logged_in: bool, mode: str):
    assert wandb_mode(asked, logged_in) == mode


def test_wandb_that_would_ask_for_a_password_is_refused():
    with pytest.raises(InputError, match="WANDB_MODE=online needs a login"):
        wandb_mode("online", logged_in=False)


def test_the_name_of_a_wandb_run_in_a_directory_that_came_from_elsewhere_is_checked(tmp_path: Path):
    (tmp_path / "wandb.json").write_text('{"run": "../*"}')
    assert re.fullmatch("[0-9a-f]{8}", run_id(tmp_path))
    assert run_id(tmp_path) == run_id(tmp_path)


# All trackers


class Fragile(Tracker):
    def __init__(self) -> None:
        self.calls = 0

    def round(self, record: Record) -> None:
        self.calls += 1
        if record.round == 2:
            raise OSError(28, "No space left on device")

    def end(self, result: object) -> None:
        self.calls += 100


def test_a_tracker_that_fails_warns_once_and_is_silent(tmp_path: Path):
    fragile = Fragile()
    with pytest.warns(TrackerWarning, match="Fragile has failed .* No space left on device") as caught:
        run = play(tmp_path / "a", fragile)
    assert len(caught) == 1
    assert fragile.calls == 2
    plain = play(tmp_path / "b")
    assert measured(run, "norm_x") == measured(plain, "norm_x")


def test_an_unknown_tracker_is_an_error_with_the_nearest():
    with pytest.raises(InputError, match="unknown tracker 'tensorbord'; did you mean 'tensorboard'"):
        tracker("tensorbord")


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_missing_package_is_an_error_that_says_what_to_install(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install driftless\[{name}\]"):
        tracker(name)


def test_trackers_are_imported_only_when_they_are_used():
    code = "import sys, driftless.runs.trackers; print({'mlflow', 'tensorboard', 'optuna', 'wandb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# A user's own


MINE = """
from driftless.runs.callbacks import Callback

class StopAtRound(Callback):
    def on_round(self, record):
        return "far enough" if record.round == 2 else None

class NeedsMore(Callback):
    def __init__(self, limit):
        pass
"""


def test_a_users_callback_is_found_in_its_file_and_can_stop_the_run(tmp_path: Path):
    (tmp_path / "mine.py").write_text(MINE)
    run = play(tmp_path / "run", callback_from_file(f"{tmp_path / 'mine.py'}:StopAtRound"))
    assert run.result is not None
    assert (run.result["status"], run.result["reason"], len(run.rows)) == ("stopped", "far enough", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine.py", "not of the form FILE.py:CLASS"),
        ("{}/none.py:A", "there is no file"),
        ("{}/mine.py:StopAtRuond", "did you mean 'StopAtRound'"),
        ("{}/mine.py:NeedsMore", "must be made without arguments"),
        ("{}/broken.py:A", "cannot be imported: SyntaxError"),
    ],
)
def test_a_callback_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("class")
    with pytest.raises(InputError, match=message):
        callback_from_file(text.format(tmp_path))
