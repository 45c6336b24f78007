"""`driftless tune`: a search for the best settings, judged on clients that are held out; never by the test set.

The objective of a trial is its validation accuracy (for regression: minus its validation loss; or what evaluate.monitor
names, on the held-out clients), the mean over its last few evaluations, and over its seeds. The mean of the last, not
the best of all: a setting that once had a lucky round is not a good one. A trial that diverges for one seed counts as
the worst.

A study is a folder: `study.json` and `planned.toml` (the plan), `study.db`, the run directories `trial-0000`, ..., of
which a killed one is resumed, and at the end `best.toml`.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from driftless.config.resolution import flat, to_toml, with_values
from driftless.engine.history import Record
from driftless.errors import InputError
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun, is_run
from driftless.runs.files import write_atomically
from driftless.runs.jobs import CountRounds, Shared, Tick, run_jobs
from driftless.runs.run import start_or_resume
from driftless.tune.plan import Plan, plan, plan_of_folder, read_plan, write_plan
from driftless.tune.space import Value
from driftless.tune.study import (
    Claim,
    TrialResult,
    claim_trial,
    folder_lock,
    open_study,
    record_result,
    should_prune,
    trial_results,
)

__all__ = ["Outcome", "Plan", "as_json", "execute", "plan", "read_plan", "rich_table"]

BEST = "best.toml"
PRUNED = "pruned: "
Progress = Callable[[int, str], object]
"""Called with the number of rounds done in all, and a text to show with it."""


@dataclass(frozen=True)
class Outcome:
    """Where a search stands."""

    folder: Path
    plan: Plan
    trials: list[TrialResult]
    best: TrialResult | None
    """None while no trial has ended well."""

    @property
    def measure(self) -> str:
        return self.plan.objective.replace("_", " ")

    def shown(self, value: float | None) -> float | None:
        """The objective as people read it: a loss is positive; nothing for what has none."""
        if value is None or not math.isfinite(value):
            return None
        return self.plan.sign * value


def execute(plan: Plan, folder: Path, progress: Progress, jobs: int | None = None) -> Outcome:
    """Run the trials that are missing and write the best settings into best.toml.

    Ctrl-C saves and stops; after it, or after a kill, the same call goes on.
    """
    with folder_lock(folder):
        plan = plan_of_folder(plan, folder)
        trials = trial_results(open_study(plan, folder), plan)
        write_plan(plan, folder)  # only now: a plan whose storage cannot be opened is none
    missing = plan.trials - sum(trial.state != "unfinished" for trial in trials)
    shared = SharedSearch((plan.trials - missing) * plan.rounds_of_trial, best_of(trials), plan.sign)
    workers = max(1, min(jobs or os.cpu_count() or 1, missing))
    run_jobs(run_trials, [(plan, folder)] * workers, workers, shared, lambda: shared.show(progress))
    with folder_lock(folder):
        trials = trial_results(open_study(plan, folder), plan)
        outcome = Outcome(folder, plan, trials, best_of(trials))
        if outcome.best:
            write_atomically(folder / BEST, best_toml(outcome, outcome.best).encode())
    return outcome


def best_of(trials: Sequence[TrialResult]) -> TrialResult | None:
    """The largest objective; of equal ones the first."""
    ended = [trial for trial in trials if trial.state == "finished"]
    return max(ended, key=lambda trial: (trial.value, -trial.number), default=None)


class SharedSearch(Shared):
    """Also the best objective so far."""

    def __init__(self, rounds: int, best: TrialResult | None, sign: int) -> None:
        super().__init__(rounds)
        self._sign = sign
        value = -math.inf if best is None or best.value is None else best.value
        self._best = multiprocessing.get_context("spawn").Value("d", value)

    def add_objective(self, value: float) -> None:
        with self._best.get_lock():
            self._best.value = max(self._best.value, value)

    def show(self, progress: Progress) -> None:
        best = self._best.value
        progress(self.rounds, f"best {self._sign * best:.4f}" if math.isfinite(best) else "")


def run_trials(shared: SharedSearch, tick: Tick, plan: Plan, folder: Path) -> None:
    """A job: trial after trial, as long as one is missing."""
    with folder_lock(folder):
        study = open_study(plan, folder)
    while not shared.stopping and (claim := claim_trial(study, plan, folder)) is not None:
        counted = CountRounds(shared, tick)
        try:
            value, rounds = run_trial(plan, claim, counted)
        except BaseException:
            claim.file.close()  # the trial stays unfinished: the next call resumes it
            raise
        record_result(study, claim, value, rounds)
        shared.add_objective(-math.inf if value is None else value)
        shared.add(plan.rounds_of_trial - counted.rounds)
        tick()


def run_trial(plan: Plan, claim: Claim, counted: Callback) -> tuple[float | None, int]:
    """The objective, None when the trial was pruned, and the rounds played. Only the first seed can be pruned."""
    values: list[float] = []
    rounds = 0
    for seed in plan.seeds:
        path = claim.directory / f"seed-{seed}" if plan.options.seeds > 1 else claim.directory
        pruning = [Pruning(plan, claim)] if seed == plan.seeds[0] and plan.options.pruner != "none" else []
        settings = {**claim.params, "run.seed": seed}
        check_same(path, settings)
        resolved = with_values(plan.base, settings, f"trial {claim.trial.number}")
        stored = start_or_resume(path, [counted, *pruning], resolved, plan.trust)
        result = stored.result or {}
        rounds += result["rounds"]
        if result["status"] == "diverged":
            return -math.inf, rounds
        if str(result["reason"]).startswith(PRUNED):
            return None, rounds
        values.append(objective(stored.rows, plan))
    return sum(values) / len(values), rounds


def check_same(path: Path, settings: Mapping[str, Any]) -> None:
    """A run that is there already must be this trial's: it may be left from a study whose database was deleted."""
    stored = flat(StoredRun(path).config) if is_run(path) else settings
    for key, here in settings.items():
        there = stored.get(key)
        if there != here:
            raise InputError(
                f"'{path}' holds a run of another search: {key} is {there} there and {here} here; move it away, or "
                "choose another folder with output=FOLDER."
            )


def objective(rows: Sequence[Mapping[str, Any]], plan: Plan) -> float:
    """The mean of the last evaluations on the held-out clients, larger is better; not finite is the worst."""
    measured = [value for row in rows if (value := validation(row, plan)) is not None]
    last = measured[-plan.options.last :]
    return sum(last) / len(last) if last else -math.inf


def validation(row: Mapping[str, Any], plan: Plan) -> float | None:
    """The objective of one round, None for a round without evaluation; a row lacks a value that was not finite."""
    run = plan.base.config.run
    if row["round"] % run.evaluate_every and row["round"] != run.rounds:
        return None
    value = float(row.get(plan.objective, math.nan))
    if not math.isfinite(value):
        return -math.inf
    return plan.sign * value


class Pruning(Callback):
    """Stops a trial that is worse than the median of the others."""

    writes_nothing = True

    def __init__(self, plan: Plan, claim: Claim) -> None:
        self._plan = plan
        self._claim = claim

    def on_round(self, record: Record) -> str | None:
        value = validation(record.metrics, self._plan)
        if value is None or not should_prune(self._claim, value, record.round):
            return None
        if record.round == self._plan.base.config.run.rounds:
            return None
        name = self._plan.objective.replace("_", " ")
        shown = self._plan.sign * value
        return f"{PRUNED}{name} {shown:.4f} after round {record.round} is behind the median of the other trials"


def best_toml(outcome: Outcome, best: TrialResult) -> str:
    """The configuration of the best trial, which `driftless run` repeats to the bit."""
    plan, where = outcome.plan, f"trial {best.number}"
    resolved = with_values(plan.base, {**best.params}, where)
    run = outcome.folder / f"trial-{best.number:04d}"
    run = run / f"seed-{plan.seeds[0]}" if plan.options.seeds > 1 else run
    if best.here and is_run(run):
        decided = {f"engine.{name}": value for name, value in StoredRun(run).config.engine}
        resolved = with_values(resolved, decided, where)
    return header(outcome, best) + to_toml(resolved)


def header(outcome: Outcome, best: TrialResult) -> str:
    plan = outcome.plan
    seeds = f"seeds {plan.seeds[0]} to {plan.seeds[-1]}" if plan.options.seeds > 1 else f"seed {plan.seeds[0]}"
    ended = sum(trial.state != "unfinished" for trial in outcome.trials)
    return (
        f"# Trial {best.number}, the best of {ended}: {outcome.measure} {outcome.shown(best.value):.6g}, "
        f"the mean of the last {plan.options.last} evaluations, {seeds}.\n"
        "# As in the search, data.validation clients are held out and not trained on; to train on all, set it to 0.\n"
        "# A search that goes on writes this file anew: copy it before you change it.\n\n"
    )


def ranked(outcome: Outcome) -> list[TrialResult]:
    """The best first; then those that were pruned, that diverged, that have not ended."""
    order = ("finished", "pruned", "diverged", "unfinished")
    worst = -math.inf
    return sorted(
        outcome.trials, key=lambda t: (order.index(t.state), -(worst if t.value is None else t.value), t.number)
    )


def rich_table(outcome: Outcome, most: int = 10) -> Table:
    """The best trials. Only the objective is shown: whoever sees test numbers here would choose by them."""
    table = Table("trial", outcome.measure, *outcome.plan.space, "rounds", "", box=None)
    rows = ranked(outcome)
    for trial in rows[:most]:
        value = outcome.shown(trial.value)
        cells = [show(trial.params.get(key)) for key in outcome.plan.space]
        state = "best" if trial == outcome.best else "" if trial.state == "finished" else trial.state
        table.add_row(str(trial.number), "-" if value is None else f"{value:.4f}", *cells, show(trial.rounds), state)
    if len(rows) > most:
        table.caption = f"and {len(rows) - most} more"
        table.caption_justify = "left"
    return table


def show(value: Value | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """For `--json`."""
    rows = [
        {
            "trial": t.number,
            "objective": outcome.shown(t.value),
            "state": t.state,
            "rounds": t.rounds,
            "params": t.params,
        }
        for t in ranked(outcome)
    ]
    best = next((row for row in rows if outcome.best and row["trial"] == outcome.best.number), None)
    return {"directory": str(outcome.folder), "measure": outcome.plan.objective, "best": best, "trials": rows}
