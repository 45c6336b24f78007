"""Trackers: what a run measures, copied to TensorBoard, MLflow or Weights & Biases; and a user's own callbacks.

A tracker never changes a run. One that fails, because a disk is full or a server is gone, warns once and records no
more. A resumed run is continued in the tracker too, without a round that is there twice.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from driftless.config.resolution import Config, flat
from driftless.config.user_code import class_in_file
from driftless.engine.history import Event, Record
from driftless.errors import InputError, unknown
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun
from driftless.runs.files import read_json, refuse_link, write_json

LONGEST_PARAMETER = 500
"""Characters of a setting that MLflow is given; a list of cohorts can be longer than its databases allow."""
STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "diverged": "FAILED"}
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # tracking a run reports nothing about its user
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # a server that is gone must not hold the run up for long
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class TrackerWarning(UserWarning):
    """A tracker has failed and was left out; the run went on."""


class Tracker(Callback):
    """Calls `start`, `round`, `event` and `end` until one of them fails."""

    writes_nothing = True

    _failed = False

    def start(self, config: Config, directory: Path | None, first_round: int) -> None:
        """Before the first round that this process plays."""

    def round(self, record: Record) -> None:
        """After each round."""

    def event(self, event: Event) -> None:
        """When something happens that a user should see."""

    def end(self, result: Mapping[str, Any]) -> None:
        """After the last round."""

    def on_start(self, config: Config, directory: Path | None, first_round: int) -> None:
        self._failed = False
        self._try(lambda: self.start(config, directory, first_round))

    def on_round(self, record: Record) -> None:
        self._try(lambda: self.round(record))

    def on_event(self, event: Event) -> None:
        self._try(lambda: self.event(event))

    def on_end(self, result: Mapping[str, Any]) -> None:
        self._try(lambda: self.end(result))

    def _try(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:
            self._failed = True
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(
                f"{type(self).__name__} has failed and records no more; the run goes on without it. {reason}",
                TrackerWarning,
                stacklevel=3,
            )


class TensorBoard(Tracker):
    """Copies what a run measures into event files of TensorBoard. Needs `pip install driftless[tensorboard]`.

    Args:
        log_dir: The folder of the event files; None: `tensorboard` in the run's directory.

    Examples:
        >>> import driftless
        >>> from driftless.runs.trackers import TensorBoard
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run(
        ...     "fedavg", federation, "logistic", output="runs/seen", rounds=1, cohort=4, callbacks=[TensorBoard()]
        ... )
        >>> (run.path / "tensorboard").is_dir()
        True
    """

    def __init__(self, log_dir: Path | str | None = None) -> None:
        self._log_dir = log_dir
        self._module = import_extra("torch.utils.tensorboard", "tensorboard")
        self._writer: Any = None

    def start(self, config: Config, directory: Path | None, first_round: int) -> None:
        folder = Path(self._log_dir) if self._log_dir else (directory or Path()) / "tensorboard"
        # Of a run that was killed and is resumed, the rounds that are now played again do not count.
        self._writer = self._module.SummaryWriter(str(folder), purge_step=first_round)
        if first_round == 1:
            self._writer.add_text("config", markdown_table(settings(config)), 0)

    def round(self, record: Record) -> None:
        for name, value in numbers(record.metrics).items():
            self._writer.add_scalar(name, value, record.round)
        self._writer.flush()  # a killed process has lost nothing that is in a checkpoint

    def event(self, event: Event) -> None:
        self._writer.add_text("events", event.text(), event.round)

    def end(self, result: Mapping[str, Any]) -> None:
        self._writer.add_text(
            "result", markdown_table({key: result.get(key) for key in ("status", "reason")}), result["rounds"]
        )
        self._writer.close()


class MLflow(Tracker):
    """Copies a run to MLflow: settings as parameters, metrics by round. Needs `pip install driftless[mlflow]`.

    The version and the commit of driftless are tags. A resumed run is continued, without a round that is there twice.

    Args:
        uri: The tracking store; None: $MLFLOW_TRACKING_URI, or else an SQLite file in the run's directory.
        experiment: The experiment of MLflow that gets the run. Default "driftless".
    """

    def __init__(self, uri: str | None = None, experiment: str = "driftless") -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)  # read when mlflow is imported
        self._uri = uri or os.environ.get("MLFLOW_TRACKING_URI")
        self._experiment = experiment
        self._module = import_extra("mlflow", "mlflow")
        if self._uri is None:
            import_extra("sqlalchemy", "mlflow")
        self._client: Any = None
        self._run = ""
        self._logged = 0

    def start(self, config: Config, directory: Path | None, first_round: int) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # otherwise it reports every table that it makes
        folder = (directory or Path()).resolve()
        uri = self._uri or f"sqlite:///{folder / 'mlflow.db'}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries, about each other
            self._client = self._module.MlflowClient(uri)
            if directory is None or not self._continue(directory, uri):
                self._begin(config, directory, uri)

    def _continue(self, directory: Path, uri: str) -> bool:
        """Continue the run that this directory began in this store."""
        file = directory / "mlflow.json"
        stored = read_json(file) if file.exists() else {}
        if stored.get("store") != self._name(uri):
            return False
        self._run = stored["run"]
        self._client.update_run(self._run, status="RUNNING")
        # A resumed run plays some rounds again, to the same values: they are there already.
        self._logged = max((metric.step for metric in self._client.get_metric_history(self._run, "round")), default=0)
        return True

    def _begin(self, config: Config, directory: Path | None, uri: str) -> None:
        folder = (directory or Path()).resolve()
        name = folder.name if directory else f"{config.data.name}-{config.algorithm.name}"
        run = self._client.create_run(self._experiment_id(folder), run_name=name, tags=tags(directory))
        self._run, self._logged = run.info.run_id, 0
        given = settings(config).items()
        params = [self._module.entities.Param(key, str(value)[:LONGEST_PARAMETER]) for key, value in given]
        self._client.log_batch(self._run, params=params)
        if directory is not None:
            write_json(directory / "mlflow.json", {"store": self._name(uri), "run": self._run})

    def _experiment_id(self, folder: Path) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return found.experiment_id
        # A store of our own keeps files, if the user logs any, beside it; a server decides for itself.
        location = None if self._uri else (folder / "mlflow-files").as_uri()
        return self._client.create_experiment(self._experiment, artifact_location=location)

    def _name(self, uri: str) -> str:
        """Without the place of our own store, so that the directory can be moved; without a password."""
        return "here" if self._uri is None else uri.rpartition("@")[2]

    def round(self, record: Record) -> None:
        if record.round <= self._logged:
            return
        Metric, now = self._module.entities.Metric, int(time.time() * 1000)
        metrics = [Metric(name, value, now, record.round) for name, value in numbers(record.metrics).items()]
        self._client.log_batch(self._run, metrics=metrics)

    def event(self, event: Event) -> None:
        self._client.set_tag(self._run, f"event.{event.round}", event.text())

    def end(self, result: Mapping[str, Any]) -> None:
        self._client.set_tag(self._run, "driftless.status", result["status"])
        if result.get("reason"):
            self._client.set_tag(self._run, "driftless.reason", result["reason"])
        self._client.set_terminated(self._run, STATUS[result["status"]])


class WandB(Tracker):
    """Copies a run to Weights & Biases: settings as config, metrics by round. Needs `pip install driftless[wandb]`.

    Status and events are in the summary. Its files are in `wandb` of the run's directory. They stay there, for `wandb
    sync`, unless $WANDB_MODE or a login says otherwise.

    Args:
        project: The project; None: $WANDB_PROJECT, or else "driftless".
    """

    def __init__(self, project: str | None = None) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when wandb is imported
        self._project = project or os.environ.get("WANDB_PROJECT", "driftless")
        self._module = import_extra("wandb", "wandb")
        self._mode = wandb_mode(os.environ.get("WANDB_MODE"), self._module.api.api_key is not None)
        self._run: Any = None
        self._events: list[str] = []

    def start(self, config: Config, directory: Path | None, first_round: int) -> None:
        folder = (directory or Path()).resolve()
        online = self._mode == "online"
        name = run_id(folder) if directory else None
        refuse_link(folder / "wandb")
        for earlier in (folder / "wandb").glob(f"offline-run-*-{name}"):
            shutil.rmtree(earlier)  # of a killed process: all of its rounds are written again, below
        self._run = self._module.init(
            dir=folder, id=name, name=folder.name if directory else None, project=self._project, mode=self._mode,
            config=settings(config) | tags(directory), reinit="create_new", resume="allow" if online else None,
            settings=self._module.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )  # fmt: skip
        self._events = []
        if directory is not None and first_round > 1:
            self._log_earlier(StoredRun(directory), first_round)

    def _log_earlier(self, run: StoredRun, first_round: int) -> None:
        for event in run.events:
            self.event(Event(**event))
        for row in run.rows[: first_round - 1]:
            self._log(row)

    def _log(self, row: Mapping[str, Any]) -> None:
        if row["round"] >= self._run.step:  # a run that is continued on a server has earlier rounds already
            self._run.log(numbers(row), step=row["round"], commit=True)

    def round(self, record: Record) -> None:
        self._log(record.metrics)

    def event(self, event: Event) -> None:
        self._events.append(f"round {event.round}: {event.text()}")
        self._run.summary["driftless.events"] = self._events

    def end(self, result: Mapping[str, Any]) -> None:
        for key in ("status", "reason"):
            self._run.summary[f"driftless.{key}"] = result[key]
        self._run.finish(exit_code=int(result["status"] == "diverged"))


def wandb_mode(asked: str | None, logged_in: bool) -> str:
    """Never one in which wandb would ask for a password."""
    if asked in ("online", "shared") and not logged_in:
        raise InputError(
            f"WANDB_MODE={asked} needs a login; run `wandb login`, or leave WANDB_MODE out to keep the files here."
        )
    return asked or ("online" if logged_in else "offline")


def run_id(folder: Path) -> str:
    """Of the wandb run that this directory began, so that a resumed run is the same one."""
    file = folder / "wandb.json"
    stored = str(read_json(file).get("run")) if file.exists() else ""
    if re.fullmatch(r"\w+", stored):
        return stored
    new = uuid.uuid4().hex[:8]
    write_json(file, {"run": new})
    return new


TRACKERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def tracker(name: str) -> Callback:
    """The tracker of this name, for `--track`."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    return TRACKERS[name]()


def import_extra(module: str, extra: str) -> Any:
    """A module of an extra, imported only when it is asked for."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"tracking with {extra} needs the package '{error.name}', which is not installed: "
            f"pip install driftless[{extra}]"
        ) from None


def callback_from_file(text: str) -> Callback:
    """An instance of a user's class, `my.py:MyCallback`, for `--callback`. Its errors are not caught: they are bugs."""
    cls = class_in_file(text, Callback, "--callback FILE.py:CLASS")
    try:
        return cls()
    except TypeError as error:
        raise InputError(f"the class '{text}' must be made without arguments: {error}.") from error


def settings(config: Config) -> dict[str, Any]:
    """Every setting by its full key; those that are not set are left out."""
    return {key: value for key, value in flat(config).items() if value is not None}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in metrics.items() if isinstance(value, int | float)}


def tags(directory: Path | None) -> dict[str, str]:
    commit = StoredRun(directory).environment.get("commit") if directory else None
    found = {"driftless.version": metadata.version("driftless"), "driftless.commit": commit}
    return {key: str(value) for key, value in found.items() if value}


def markdown_table(values: Mapping[str, Any]) -> str:
    """As Markdown, which TensorBoard shows."""
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in values.items())])
