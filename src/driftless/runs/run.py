"""A run is a directory: started, killed, resumed to the same bits, never overwritten silently."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from driftless.config.build import simulation_of
from driftless.config.resolution import Config, Resolved, resolve, to_toml, with_values
from driftless.engine.history import Event, Record
from driftless.engine.simulation import Simulation, play
from driftless.engine.state import State
from driftless.errors import Diverged, InputError, WorkerDied
from driftless.runs.callbacks import Callback
from driftless.runs.checkpoint import Checkpoints
from driftless.runs.directory import (
    CHECKPOINT,
    CONFIG,
    ENVIRONMENT,
    EVENTS,
    LOCK,
    METRICS,
    RESULT,
    StoredRun,
    is_run,
    read_lines,
)
from driftless.runs.files import write_atomically, write_json
from driftless.runs.stopping import Row, stop_reason

DECIDED = "decided at the start"
"""The source of a setting that was left open and that this machine has settled."""
ADDED = {("local", "augment"): "none", ("model", "weights"): None}
"""Settings that older runs do not have, and the value that does what was done before: those runs can be resumed."""
LISTED = ("torch", "numpy", "safetensors")


class Interrupted(Exception):
    """The user stopped the run after a round; it is saved and can be resumed."""

    def __init__(self, directory: Path, round: int) -> None:
        super().__init__(directory, round)  # both, so that it can travel between processes
        self.directory = directory
        self.round = round

    def __str__(self) -> str:
        return f"stopped after round {self.round}; continue with: {command('resume', self.directory)}"


def start(resolved: Resolved, directory: Path, callbacks: Iterable[Callback] = ()) -> StoredRun:
    """A new run in a directory that holds none yet. All input is checked before anything is written."""
    refuse_existing(directory)
    simulation = simulation_of(resolved.config)
    settled = settle(resolved, simulation)
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        refuse_existing(directory)
        write_json(directory / ENVIRONMENT, environment(settled.config.engine.threads))
        (directory / METRICS).touch()
        write_atomically(directory / CONFIG, to_toml(settled).encode())
        return Session(directory, settled.config, simulation, tuple(callbacks)).run(simulation.init(), {})


def resume(
    directory: Path,
    callbacks: Iterable[Callback] = (),
    tell: Callable[[str], object] = lambda problem: None,
    workers: int | None = None,
) -> tuple[StoredRun, list[str]]:
    """Continue an interrupted run to the same bits; returns it and what was wrong with damaged checkpoints.

    `tell` hears of those at once. `workers`: another number of processes than before.
    """
    if not is_run(directory):
        raise InputError(f"'{directory}' is not a run directory; give one that `driftless run` made.")
    with locked(directory):
        if StoredRun(directory).result is not None:
            raise InputError(
                f"the run in '{directory}' has ended already; look at it with: {command('report', directory)}"
            )
        config = with_workers(resolve(directory / CONFIG, []).config, workers)
        simulation = simulation_of(without_weights(directory, config))
        session = Session(directory, config, simulation, tuple(callbacks))
        loaded = session.checkpoints.load(simulation.init())
        if loaded is None:
            return session.run(simulation.init(), {}), []
        for problem in loaded.damaged:
            tell(problem)
        return session.run(loaded.state, loaded.positions), loaded.damaged


def without_weights(directory: Path, config: Config) -> Config:
    """A run with a checkpoint needs no file of weights: its x is newer. Only the mean over all clients contains x^0."""
    if config.server.inference == "clients" or not any((directory / CHECKPOINT).glob("manifest-*.json")):
        return config
    return config.model_copy(update={"model": config.model.model_copy(update={"weights": None})})


def with_workers(config: Config, workers: int | None) -> Config:
    if workers is None:
        return config
    if workers > 1 and config.engine.threads != 1:
        raise InputError(
            f"the run was started with {config.engine.threads} threads, and workers have one each: its numbers would "
            "not be the same bits. Resume without --workers, or start runs that are to change with engine.threads=1."
        )
    return config.model_copy(update={"engine": config.engine.model_copy(update={"workers": workers})})


class Session:
    """One process playing a run: the open files and the loop over rounds."""

    def __init__(
        self, directory: Path, config: Config, simulation: Simulation, callbacks: tuple[Callback, ...]
    ) -> None:
        self.directory = directory
        self.config = config
        self.simulation = simulation
        self.callbacks = callbacks
        self.checkpoints = Checkpoints(directory / CHECKPOINT, fingerprint(config))

    def run(self, state: State, positions: dict[str, int]) -> StoredRun:
        """Play from `state` to the end; the metrics files are cut to where they were when it was saved."""
        with Lines(self.directory / METRICS, positions) as metrics, Lines(self.directory / EVENTS, positions) as events:
            rows: list[Row] = read_lines(self.directory / METRICS)
            for callback in self.callbacks:
                callback.on_start(self.config, self.directory, state.round + 1)
            status, reason = "finished", None
            for notice in self.simulation.notices + self.simulation.decision.notices:
                self._tell(Event(state.round, notice), events)
            try:
                reason = self._play(state, rows, metrics, events)
                status = "stopped" if reason else "finished"
            except Diverged as error:
                status, reason = "diverged", str(error)
            except WorkerDied as error:
                raise WorkerDied(f"{error}\nContinue with: {command('resume', self.directory)}") from error
        result = result_of(status, reason, rows)
        write_json(self.directory / RESULT, result)
        for callback in self.callbacks:
            callback.on_end(result)
        return StoredRun(self.directory)

    def _play(self, state: State, rows: list[Row], metrics: Lines, events: Lines) -> str | None:
        """Rounds until the end, a stopping rule (its reason is returned), or the user's interrupt."""
        rounds, every = self.config.run.rounds, self.config.run.checkpoint_every
        reason = stop_reason(self.config, rows) if rows else None
        if reason:
            return reason
        if rows:
            state = replace(state, train_accuracy=rows[-1].get("train_accuracy"))
        with interrupts() as interrupted, closing(play(self.simulation, state)) as records:
            for record in records:
                reason = self._write(record, rows, metrics, events)
                t = record.round
                stopping = interrupted()  # asked once, so that whatever ends the run has been saved
                last = t == rounds or reason is not None or stopping
                if last or (every and t % every == 0):
                    metrics.sync()
                    events.sync()
                    self.checkpoints.save(record.state, {METRICS: metrics.position, EVENTS: events.position})
                if reason is not None:
                    return reason
                if stopping and t < rounds:
                    raise Interrupted(self.directory, t)
        return None

    def _write(self, record: Record, rows: list[Row], metrics: Lines, events: Lines) -> str | None:
        """Write the round's row and call the callbacks; a reason to stop, if there is one."""
        row = dict(record.metrics)
        rows.append(row)
        metrics.write(row)
        for event in record.events:
            self._tell(event, events)
        reasons = [stop_reason(self.config, rows), *(callback.on_round(record) for callback in self.callbacks)]
        return next((reason for reason in reasons if reason), None)

    def _tell(self, event: Event, events: Lines) -> None:
        events.write(as_json(event))
        for callback in self.callbacks:
            callback.on_event(event)


class Lines:
    """A file of JSON lines, each flushed when it is written."""

    def __init__(self, path: Path, positions: dict[str, int]) -> None:
        self.path = path
        self.position = positions.get(path.name, 0)
        self._file: BinaryIO | None = None

    def __enter__(self) -> Lines:
        self.path.touch()
        if self.path.stat().st_size < self.position:
            raise InputError(
                f"'{self.path}' has {self.path.stat().st_size} bytes, but the checkpoint was made when it had "
                f"{self.position}: lines are missing. Put the file back, or delete the checkpoint folder to start over."
            )
        self._file = open(self.path, "r+b")
        self._file.truncate(self.position)
        self._file.seek(self.position)
        return self

    def write(self, content: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write((json.dumps(content) + "\n").encode())
        self._file.flush()
        self.position = self._file.tell()

    def sync(self) -> None:
        """Make the lines durable before a checkpoint counts on them."""
        assert self._file is not None
        os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()


def result_of(status: str, reason: str | None, rows: list[Row]) -> dict[str, Any]:
    """What result.json holds; `final` has the newest value of each metric."""
    final: Row = {}
    for row in rows:
        final |= row
    accuracies = [row["test_accuracy"] for row in rows if "test_accuracy" in row]
    return {
        "status": status,
        "reason": reason,
        "rounds": len(rows),
        "final": final,
        "best_test_accuracy": max(accuracies, default=None),
        "last_test_accuracy": sum(accuracies[-10:]) / len(accuracies[-10:]) if accuracies else None,
        "norm_x": final.get("norm_x"),
        "seconds": sum(row.get("seconds", 0.0) for row in rows),
    }


def as_json(event: Event) -> dict[str, Any]:
    return {"round": event.round, "what": event.what, "clients": list(event.clients)}


def settle(resolved: Resolved, simulation: Simulation) -> Resolved:
    """Write down what was left open and is now decided."""
    decided = {f"engine.{name}": value for name, value in simulation.resolved_engine.items()}
    decided["run.evaluate_every"] = simulation.evaluate_every
    changed = {key: value for key, value in decided.items() if resolved.value(key) != value}
    return with_values(resolved, changed, DECIDED)


def fingerprint(config: Config) -> str:
    """Of everything that decides the numbers of a run."""
    settings = config.model_dump()
    for section, key in (("run", "checkpoint_every"), ("run", "output"), ("engine", "workers"), ("engine", "memory")):
        settings[section].pop(key)
    for (section, key), before in ADDED.items():
        if settings[section][key] == before:
            settings[section].pop(key)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


class Locked(InputError):
    """Another process writes the run."""


def command(name: str, directory: Path) -> str:
    """A command as one would type it."""
    return f"driftless {name} {shlex.quote(str(directory))}"


def refuse_file(directory: Path) -> None:
    in_the_way = next((path for path in (directory, *directory.parents) if path.exists() and not path.is_dir()), None)
    if in_the_way:
        raise InputError(f"the output '{directory}' cannot be a folder: '{in_the_way}' is a file. Choose another one.")


def refuse_existing(directory: Path) -> None:
    refuse_file(directory)
    if not is_run(directory):
        ours = (directory / LOCK).exists()  # a start that was killed before its first round
        taken = [name for name in (CONFIG, ENVIRONMENT, METRICS, EVENTS, RESULT) if (directory / name).exists()]
        if taken and not ours:
            raise InputError(
                f"'{directory}' holds a file '{taken[0]}' that is not of a run; it would be overwritten. "
                "Choose another output."
            )
        return
    if StoredRun(directory).result is not None:
        raise InputError(
            f"'{directory}' holds a finished run; look at it with: {command('report', directory)}. To run again, "
            "choose another output, or add --again, which keeps the old run under another name."
        )
    raise InputError(
        f"'{directory}' holds a run that has not ended; continue it with: {command('resume', directory)}. To start "
        "anew, choose another output, or add --again, which keeps the old run under another name."
    )


def set_aside(directory: Path) -> Path | None:
    """Rename an existing run out of the way; returns its new name."""
    if not is_run(directory):
        return None
    with locked(directory):
        other = free_name(directory.with_name(f"{directory.name}.old"))
        directory.rename(other)
    return other


def free_name(directory: Path) -> Path:
    """The directory itself, or with -2, -3, ... behind it if it exists."""
    if not directory.exists():
        return directory
    number = 2
    while directory.with_name(f"{directory.name}-{number}").exists():
        number += 1
    return directory.with_name(f"{directory.name}-{number}")


def default_directory(config: Config) -> Path:
    """runs/digits-adabest-seed3: never one that exists."""
    algorithm = Path(config.algorithm.name.rpartition(":")[2]).name
    return free_name(Path("runs") / f"{config.data.name}-{algorithm}-seed{config.run.seed}")


@contextmanager
def locked(directory: Path) -> Generator[None]:
    """Only one process writes a run. The lock is the kernel's: a killed process leaves none behind."""
    with open(directory / LOCK, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Locked(
                f"another process ({file.read().strip() or 'unknown'}) is writing the run in '{directory}'; "
                "wait for it, or stop it first."
            ) from None
        file.truncate(0)
        file.write(f"pid {os.getpid()}\n")
        file.flush()
        yield


@contextmanager
def interrupts() -> Generator[Any]:
    """Ctrl-C (or SIGTERM) lets the round end; a second one ends the process as usual."""
    seen: list[int] = []
    previous: dict[int, Any] = {}

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        signal.signal(number, previous[number])

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    except ValueError:
        pass  # not the main thread: whoever runs us there handles signals
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def environment(threads: int) -> dict[str, Any]:
    """What a reader needs to judge, and to repeat, the numbers."""
    return {
        "driftless": metadata.version("driftless"),
        "commit": commit(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in LISTED},
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def commit() -> str | None:
    """The commit of the source tree, with a + when it has changes; None for an installed package."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
