"""A run is a directory: started, killed, resumed to the same bits, never overwritten silently."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from driftless import models
from driftless.config.build import simulation_of
from driftless.config.describe import Description, describe
from driftless.config.resolution import Config, Resolved, flat, to_toml, with_values
from driftless.config.sections import BOOKKEEPING
from driftless.config.stored import changed_code, different_settings, resolve_stored
from driftless.data.federation import Federation
from driftless.engine.evaluation_settings import Monitor
from driftless.engine.fingerprint import fingerprints
from driftless.engine.history import Event, Record, with_own_values
from driftless.engine.ranks import current
from driftless.engine.simulation import Simulation, one_run_at_a_time, play, training_accuracies
from driftless.engine.state import State
from driftless.errors import Diverged, InputError, WorkerDied, doing
from driftless.privacy import DifferentialPrivacy
from driftless.runs.callbacks import Callback
from driftless.runs.checkpoint import Checkpoints
from driftless.runs.directory import (
    CHECKPOINT,
    CLIENT_METRICS,
    CONFIG,
    ENVIRONMENT,
    EVENTS,
    FEDERATION,
    METRICS,
    NODES,
    PLANNED,
    RESULT,
    WEIGHTS,
    StoredRun,
    command,
    how_to_continue,
    is_run,
    refuse_existing,
)
from driftless.runs.environment import differences, environment, federation_summary
from driftless.runs.files import Lines, read_lines, refuse_link, write_atomically, write_json
from driftless.runs.fingerprint import FINGERPRINT, check_same
from driftless.runs.followed import Opening, agree, config_text, follow_run, open_run, share
from driftless.runs.interrupts import interrupts
from driftless.runs.lock import locked
from driftless.runs.resumed_settings import refuse_other_engine, with_device, with_workers, without_weights

Row = dict[str, Any]
"""A line of metrics.jsonl."""
DECIDED = "decided at the start"
"""The source of a setting that was left open and was decided by the rules of the engine."""

LEFT_OPEN = ("store", "store_dtype")
"""Settings of the engine that stay as given: a run may be resumed where another store fits."""


class Player(NamedTuple):
    """Who plays the rounds of a run: the simulator, or nodes (deploy)."""

    simulation_of: Callable[[Config], Simulation] = simulation_of
    play: Callable[[Simulation, State], Generator[Record]] = play
    federation_summary: Callable[[Federation], dict[str, Any]] = federation_summary


SIMULATOR = Player()
Announce = Callable[[Description], object]
"""Called with what a run does, when all is checked and before the first round."""


def ignore(_: object) -> None: ...


class Interrupted(Exception):
    """The user stopped the run after a round; it is saved and can be resumed."""

    def __init__(self, directory: Path, round: int) -> None:
        super().__init__(directory, round)  # both, so that it can travel between processes
        self.directory = directory
        self.round = round

    def __str__(self) -> str:
        return f"stopped after round {self.round}; continue with: {how_to_continue(self.directory)}"


@one_run_at_a_time()
def start(
    resolved: Resolved,
    directory: Path,
    callbacks: Iterable[Callback] = (),
    announce: Announce = ignore,
    player: Player = SIMULATOR,
) -> StoredRun:
    """A new run in a directory that holds none yet. All input is checked before anything is written."""
    ranks = current()
    if ranks.rank > 0:
        return follow_run(ranks, directory, resolved)
    refuse_existing(directory)
    open_run(ranks, Opening())
    simulation = player.simulation_of(resolved.config)
    agree(ranks, resolved.config, simulation)
    simulation.check_fits(directory, checkpoints=True)
    description = describe(resolved.config, simulation)
    announce(description)
    resolved = with_decisions(resolved, simulation)
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        refuse_existing(directory)
        needs = {"needs": description["memory"]}
        write_json(directory / ENVIRONMENT, environment(resolved.config.engine.threads) | needs)
        write_json(directory / FEDERATION, player.federation_summary(simulation.federation), indent=None)
        write_json(directory / FINGERPRINT, fingerprints(simulation))
        write_atomically(directory / METRICS, b"")
        write_atomically(directory / CONFIG, to_toml(resolved).encode())
        session = Session(directory, resolved.config, simulation, tuple(callbacks), player)
        return share(ranks, session.run(simulation.init(directory), {}))


@one_run_at_a_time()
def resume(
    directory: Path,
    callbacks: Iterable[Callback] = (),
    warn: Callable[[str], object] = ignore,
    workers: int | None = None,
    trust: bool = False,
    announce: Announce = ignore,
    device: str | None = None,
    player: Player = SIMULATOR,
) -> StoredRun:
    """Continue an interrupted run to the same bits.

    `warn` is told, before the first round, which files were damaged, what was done about it, and what is different now.
    `workers`: another number of processes. `device`: another device, on which the last bits may differ. `trust`: import
    code that was changed since the run was started.
    """
    ranks = current()
    if ranks.rank > 0:
        return follow_run(ranks, directory)
    if not is_run(directory):
        raise InputError(f"'{directory}' is not a run directory; give one that `driftless run` made.")
    if player is SIMULATOR and (directory / NODES).exists():
        raise InputError(
            f"the run in '{directory}' is of a federation, whose nodes have the data; continue it with: "
            f"{how_to_continue(directory)}."
        )
    with locked(directory):
        if StoredRun(directory).result is not None:
            raise InputError(
                f"the run in '{directory}' has ended already; look at it with: {command('report', directory)}"
            )
        recorded = StoredRun(directory).environment if (directory / ENVIRONMENT).exists() else {}
        refuse_other_engine(directory, recorded)
        changed = differences(recorded) + tuple(filter(None, [changed_code(directory / CONFIG)]))
        config = with_workers(resolve_stored(directory / CONFIG, trust).config, workers)
        config, moved = with_device(config, device)
        changed += moved
        used = without_weights(directory, config)
        open_run(ranks, Opening(True, config_text(directory), trust, used == config, device))
        simulation = player.simulation_of(used)
        agree(ranks, config, simulation)
        simulation = replace(simulation, notices=simulation.notices + changed)
        simulation.check_fits(directory, checkpoints=False)
        session = Session(directory, config, simulation, tuple(callbacks), player)
        loaded = session.checkpoints.load(simulation.init(directory))
        check_same(directory, simulation, without=() if used == config else ("x0",))
        announce(describe(config, simulation))
        for difference in changed:
            warn(difference)
        if loaded is None:
            return share(ranks, session.run(simulation.init(directory), {}))
        for problem in loaded.damaged:
            warn(problem)
        return share(ranks, session.run(loaded.state, loaded.lines))


@one_run_at_a_time()
def start_or_resume(
    directory: Path,
    callbacks: Iterable[Callback] = (),
    resolved: Resolved | None = None,
    trust: bool = False,
    announce: Announce = ignore,
    player: Player = SIMULATOR,
) -> StoredRun:
    """The run of a directory: started, resumed, or as it is if it has ended. Its settings: default planned.toml."""
    ranks = current()
    if ranks.rank > 0:
        return follow_run(ranks, directory, resolved)
    if not is_run(directory):
        return start(resolved or resolve_stored(directory / PLANNED, trust), directory, callbacks, announce, player)
    stored = StoredRun(directory)
    if stored.result is None:
        return resume(directory, callbacks, trust=trust, announce=announce, player=player)
    open_run(ranks, Opening(False, config_text(directory)))
    return share(ranks, stored)


def check_same_run(directory: Path, resolved: Resolved, player: Player = SIMULATOR) -> None:
    """Raise, naming the difference, unless the run of the directory has these settings, data, model and code."""
    simulation = player.simulation_of(resolved.config)
    there, here = flat(StoredRun(directory).config), flat(with_decisions(resolved, simulation).config)
    for key in different_settings(there, here):
        raise InputError(
            f"'{directory}' holds a run with other settings: {key} is {there.get(key, 'not set')} there and "
            f"{here.get(key, 'not set')} here. Choose another output, or the same settings."
        )
    check_same(directory, simulation)


class Session:
    """One process playing a run: the open files and the loop over rounds."""

    def __init__(
        self, directory: Path, config: Config, simulation: Simulation, callbacks: tuple[Callback, ...], player: Player
    ) -> None:
        self.directory = directory
        self.config = config
        self.simulation = simulation
        self.callbacks = callbacks
        self.player = player
        self.checkpoints = Checkpoints(directory / CHECKPOINT, fingerprint(config))
        self._place = place_of(directory)

    def run(self, state: State, lines: Mapping[str, bytes]) -> StoredRun:
        """Play from `state` to the end; the metrics files hold again the `lines` of when it was saved."""
        refuse_link(self.checkpoints.folder)
        self._state = state
        with self._open(METRICS, lines) as metrics, self._open(EVENTS, lines) as events:
            rows: list[Row] = read_lines(self.directory / METRICS)
            for callback in self.callbacks:
                callback.on_start(self.config, self.directory, state.round + 1)
            status, reason = "finished", None
            for notice in self.simulation.notices + self.simulation.decision.notices:
                self._report(Event(state.round, notice), events)
            try:
                reason = self._play(state, rows, metrics, events)
                status = "stopped" if reason else "finished"
                if grown := self.simulation.grown_loss(rows):
                    status, reason = "diverged", grown
                    self._report(Event(len(rows), grown), events)
            except Diverged as error:
                status, reason = "diverged", str(error)
            except WorkerDied as error:
                raise WorkerDied(f"{error}\nContinue with: {how_to_continue(self.directory)}") from error
        self._refuse_moved()
        result = result_of(status, reason, rows, self.simulation.monitor)
        write_atomically(self.directory / WEIGHTS, models.weights_content(self._module()))
        write_json(self.directory / RESULT, result)
        for callback in self.callbacks:
            callback.on_end(result)
        return StoredRun(self.directory)

    def _module(self) -> nn.Module:
        return self.simulation.module(self._state)

    def _refuse_moved(self) -> None:
        if place_of(self.directory) != self._place:
            raise InputError(
                f"'{self.directory}' was renamed or removed while its run was written, so the run has ended here. "
                "Continue it under its new name: driftless resume NEW-NAME"
            )

    def _open(self, name: str, lines: Mapping[str, bytes]) -> Lines:
        return Lines(self.directory / name, self.checkpoints.folder / name, lines.get(name, b""))

    def _play(self, state: State, rows: list[Row], metrics: Lines, events: Lines) -> str | None:
        """Rounds until the end, a stopping rule (its reason is returned), or the user's interrupt."""
        rounds, every = self.config.run.rounds, self.config.run.checkpoint_every
        if rows:
            reason = stop_reason(self.config, self.simulation.monitor, rows)
            if reason:
                return reason
            noticed = frozenset(event["what"] for event in read_lines(self.directory / EVENTS))
            state = replace(state, accuracies=training_accuracies(rows[-1]), noticed=noticed)
        evaluated: Record | None = None
        """The last one with values of clients that are not yet written."""
        with interrupts(self.directory) as interrupted, closing(self.player.play(self.simulation, state)) as records:
            for record in records:
                reason = self._write(record, rows, metrics, events)
                self._refuse_moved()
                t = record.round
                stopping = interrupted()  # asked once, so that whatever ends the run has been saved
                last = t == rounds or reason is not None or stopping
                self._state = record.state
                if record.client_metrics:
                    evaluated = record
                if last or (every and t % every == 0):
                    if evaluated is not None:
                        self._write_client_metrics(evaluated)
                        evaluated = None
                    self.checkpoints.save(record.state, {METRICS: metrics.sync(), EVENTS: events.sync()})
                if reason is not None:
                    return reason
                if stopping and t < rounds:
                    raise Interrupted(self.directory, t)
        return None

    def _write(self, record: Record, rows: list[Row], metrics: Lines, events: Lines) -> str | None:
        """Call the callbacks and write the round's row, with what they add; a reason to stop, if there is one."""
        for event in record.events:
            self._report(event, events)
        row: Row = record.metrics
        reasons: list[str | None] = []
        with doing(f"calling the callbacks after round {record.round}"):
            for callback in (each for each in self.callbacks if not each.writes_nothing):
                given = record.copy()._replace(metrics=dict(row))
                reasons.append(callback.on_round(given))
                row = with_own_values(row, given.metrics, self.simulation.columns, type(callback).__name__)
            rows.append(row)
            metrics.write(row)
            shown = record._replace(metrics=dict(row))
            reasons += [callback.on_round(shown) for callback in self.callbacks if callback.writes_nothing]
        reasons = [stop_reason(self.config, self.simulation.monitor, rows), *reasons]
        return next((reason for reason in reasons if reason), None)

    def _write_client_metrics(self, record: Record) -> None:
        """Before the checkpoint, so that a run that is continued from there has them, too."""
        metrics = {
            name: [value if math.isfinite(value) else None for value in values]
            for name, values in record.client_metrics.items()
        }
        write_json(self.directory / CLIENT_METRICS, {"round": record.round, "metrics": metrics}, indent=None)

    def _report(self, event: Event, events: Lines) -> None:
        events.write(event._asdict())
        for callback in self.callbacks:
            callback.on_event(event)


def place_of(directory: Path) -> tuple[int, int] | None:
    """What stays the same when a directory is renamed; None if there is none of that name."""
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def stop_reason(config: Config, monitor: Monitor | None, rows: list[Row]) -> str | None:
    """Why the run should stop now, from its rows alone, so that a resumed run decides the same."""
    run = config.run
    if monitor is None or not (run.stop_at_target or run.patience is not None):
        return None
    measured = [row[monitor.column] for row in rows if monitor.column in row]
    if not measured or monitor.column not in rows[-1]:
        return None
    if run.stop_at_target and run.target is not None and monitor.reaches(measured[-1], run.target):
        return f"{monitor.name} {measured[-1]:.4f} reached the target {run.target:g}"
    if run.patience is not None and len(measured) > run.patience:
        before, since = monitor.best(measured[: -run.patience]), monitor.best(measured[-run.patience :])
        if monitor.reaches(before, since):
            return f"no better {monitor.name} than {before:.4f} in the last {run.patience} evaluations"
    return None


def result_of(status: str, reason: str | None, rows: list[Row], monitor: Monitor | None) -> dict[str, Any]:
    """What result.json holds; `final` has the newest value of each metric, `best` the best of the monitored one."""
    final: Row = {}
    for row in rows:
        final |= row
    accuracies = [row["test_accuracy"] for row in rows if "test_accuracy" in row]
    judged = [row[monitor.column] for row in rows if monitor.column in row] if monitor else []
    return {
        "status": status,
        "reason": reason,
        "rounds": len(rows),
        "final": final,
        "monitor": monitor.column if monitor else None,
        "best": monitor.best(judged) if monitor and judged else None,
        "last": sum(judged[-10:]) / len(judged[-10:]) if judged else None,
        "best_test_accuracy": max(accuracies, default=None),
        "last_test_accuracy": sum(accuracies[-10:]) / len(accuracies[-10:]) if accuracies else None,
        "norm_x": final.get("norm_x"),
        "seconds": sum(row.get("seconds", 0.0) for row in rows),
        "evaluation_seconds": sum(row.get("evaluation_seconds", 0.0) for row in rows),
    }


def with_decisions(resolved: Resolved, simulation: Simulation) -> Resolved:
    """What was left open, as it was decided for this run, so that a resumed run decides nothing again."""
    engine = {name: value for name, value in simulation.resolved_engine.items() if name not in LEFT_OPEN}
    decided = {f"engine.{name}": value for name, value in engine.items()}
    if current().size > 1:
        decided.pop("engine.workers")  # of this launch; without one the setting holds
    decided["run.evaluate_every"] = simulation.evaluate_every
    if isinstance(privacy := simulation.algorithm, DifferentialPrivacy):
        decided |= {"privacy.noise_multiplier": privacy.noise_multiplier, "privacy.delta": privacy.delta}
    if simulation.monitor is not None:
        decided |= {"evaluate.monitor": simulation.monitor.column, "evaluate.mode": simulation.monitor.mode}
    return with_values(resolved, decided, DECIDED)


def fingerprint(config: Config) -> str:
    """Of everything that decides the numbers of a run."""
    settings = config.model_dump()
    for key in (*BOOKKEEPING, "engine.workers", "engine.memory", "engine.device", "engine.store"):
        section, _, name = key.partition(".")
        settings[section].pop(name)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
