"""The Optuna study of a search, which processes and machines share.

Trial n gets the same suggestion whichever process asks for it, and a trial whose process was killed is resumed as the
same trial. Only this module and search.py need Optuna, which is an extra; plan.py says so before they are imported.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import optuna
import sqlalchemy.exc
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, GridSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from driftless.config.stored import different_settings
from driftless.errors import InputError
from driftless.random import key63
from driftless.runs.lock import exclusive, try_lock
from driftless.tune.plan import CLAIM, Plan, identity, without_password
from driftless.tune.space import Choices, Dimension, Value, grid

DATABASE = "study.db"
STARTUP_TRIALS = 5
"""Trials that run to their end before a median means anything."""
DIVERGED = -math.inf
SECONDS_TO_WAIT = 60
"""For another process that holds an SQLite file."""


@dataclass(frozen=True)
class TrialResult:
    """A trial as it is in the storage."""

    number: int
    state: str
    """ "finished", "pruned", "diverged" or "unfinished"."""
    value: float | None
    """Larger is better; of a pruned trial, where it was when it was stopped."""
    params: dict[str, Value]
    rounds: int | None
    here: bool
    """Its directory is in this folder."""


@dataclass(frozen=True)
class Claim:
    """A trial that this process alone works on, as long as the file is open."""

    trial: Trial
    directory: Path
    params: dict[str, Value]
    reported: set[int]
    """Rounds that are in the storage already, from before the process was killed."""
    file: BinaryIO


def open_study(plan: Plan, folder: Path) -> optuna.Study:
    """The study, made if there is none; one of another search is refused. The caller holds the folder's lock."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = plan.options.storage or f"sqlite:///{(folder / DATABASE).resolve()}"
    with storage_errors(url):
        study = with_retries(lambda: make_study(url, plan))
        stored, own = study.user_attrs.get("search"), identity(plan)
        if stored is None and not study.get_trials(deepcopy=False):
            study.set_user_attr("search", own)
        elif stored is None or different_settings(stored, own):
            raise InputError(
                f"study '{plan.name}' in {without_password(url)} belongs to another search; "
                "give yours another name with study=NAME."
            )
    return study


def make_study(url: str, plan: Plan) -> optuna.Study:
    waiting = {"connect_args": {"timeout": SECONDS_TO_WAIT}} if url.startswith("sqlite") else {}
    return optuna.create_study(
        storage=RDBStorage(url, engine_kwargs=waiting),
        study_name=plan.name,
        direction="maximize",
        sampler=sampler_of(plan),
        pruner=pruner_of(plan),
        load_if_exists=True,
    )


def with_retries(make: Callable[[], optuna.Study], attempts: int = 5) -> optuna.Study:
    """Two machines that find an empty database both create its tables: the second finds them when it tries again."""
    for attempt in range(1, attempts):
        try:
            return make()
        except sqlalchemy.exc.DatabaseError as error:
            if not re.search("already exists|duplicate|unique|locked", str(error), re.IGNORECASE):
                raise
            time.sleep(0.2 * attempt)
    return make()


@contextmanager
def storage_errors(url: str) -> Generator[None]:
    if ":***@" in url:
        raise InputError(
            f"the password of storage '{url}' is not kept in the folder; repeat the tune command with its storage=URL."
        )
    if ":memory:" in url or url in ("sqlite://", "sqlite:///"):
        raise InputError(f"storage '{url}' is gone when the process ends; give a file: storage=sqlite:///study.db.")
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, RuntimeError, optuna.exceptions.OptunaError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        if "disk I/O" in reason or "is full" in reason:  # the URL is not at fault
            raise
        raise InputError(
            f"storage '{without_password(url)}' cannot be opened: {without_password(reason)}. Leave storage out, or "
            "give an SQLAlchemy URL, such as sqlite:///study.db or postgresql+psycopg://user@host/database."
        ) from None


def sampler_of(plan: Plan) -> BaseSampler:
    if plan.options.sampler == "grid":
        points = grid(plan.space)
        return ByNumber(lambda _: GridSampler(points, seed=plan.base.config.run.seed), plan.base.config.run.seed)
    kind = RandomSampler if plan.options.sampler == "random" else TPESampler
    return ByNumber(lambda seed: kind(seed=seed), plan.base.config.run.seed)


class ByNumber(BaseSampler):
    """What a trial gets depends on its number and the finished trials, not on what its process drew before.

    Optuna's own samplers draw from one stream per process: resuming, or a second process, would change the search.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make = make
        self._seed = seed

    def _sampler(self, trial: FrozenTrial, name: str = "") -> BaseSampler:
        return self._make(key63(self._seed, f"tune {name}", trial.number) % 2**32)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._sampler(trial).before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        sampler = self._sampler(trial, param_name)
        return sampler.sample_independent(study, trial, param_name, param_distribution)


def pruner_of(plan: Plan) -> BasePruner:
    """The first quarter of a run decides nothing: good settings may start slowly."""
    if plan.options.pruner == "none":
        return NopPruner()
    return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=plan.base.config.run.rounds // 4)


def claim_trial(study: optuna.Study, plan: Plan, folder: Path) -> Claim | None:
    """A trial that a killed process left, else a new one, else None: as many as were asked for are under way."""
    with folder_lock(folder):
        trials = study.get_trials(deepcopy=False)
        for frozen in trials:
            if frozen.state == TrialState.RUNNING and is_here(frozen, plan):
                file = claim_file(directory_of(folder, frozen.number))
                if file is not None and has_ended(study, frozen):  # since the trials were read
                    file.close()
                elif file is not None:
                    trial = Trial(study, frozen._trial_id)  # pyright: ignore[reportPrivateUsage]
                    return claimed(trial, folder, plan, file, set(frozen.intermediate_values))
        if len(counted(trials)) >= plan.trials:
            return None
        trial = study.ask()
        earlier = [t for t in counted(study.get_trials(deepcopy=False)) if t.number < trial.number]
        if len(earlier) >= plan.trials:  # another machine was faster
            study.tell(trial, state=TrialState.FAIL)
            return None
        trial.set_user_attr("place", plan.place)
        file = claim_file(directory_of(folder, trial.number))
        assert file is not None
        return claimed(trial, folder, plan, file, set())


def has_ended(study: optuna.Study, trial: FrozenTrial) -> bool:
    return study.get_trials(deepcopy=False)[trial.number].state.is_finished()


def claimed(trial: Trial, folder: Path, plan: Plan, file: BinaryIO, reported: set[int]) -> Claim:
    params = {key: suggest(trial, key, dim) for key, dim in plan.space.items()}
    return Claim(trial, directory_of(folder, trial.number), params, reported, file)


def suggest(trial: Trial, key: str, dim: Dimension) -> Value:
    if isinstance(dim, Choices):
        return cast(Value, trial.suggest_categorical(key, dim.values))
    if dim.whole:
        return trial.suggest_int(key, int(dim.low), int(dim.high), step=int(dim.step or 1), log=dim.log)
    return trial.suggest_float(key, dim.low, dim.high, step=dim.step, log=dim.log)


def counted(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.state != TrialState.FAIL]


def is_here(trial: FrozenTrial, plan: Plan) -> bool:
    """A storage in the folder holds only the folder's trials; a shared one may hold those of other machines."""
    return plan.options.storage is None or trial.user_attrs.get("place") == plan.place


def directory_of(folder: Path, number: int) -> Path:
    return folder / f"trial-{number:04d}"


def claim_file(directory: Path) -> BinaryIO | None:
    """The open file that is the claim; None if another process has it."""
    directory.mkdir(exist_ok=True)
    return try_lock(directory / CLAIM)


def folder_lock(folder: Path) -> AbstractContextManager[None]:
    """One process at a time; others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    return exclusive(folder / CLAIM)


def record_result(study: optuna.Study, claim: Claim, value: float | None, rounds: int) -> None:
    """Store the value of the trial, None for a pruned one, and release the claim."""
    claim.trial.set_user_attr("rounds", rounds)
    if value is None:
        study.tell(claim.trial, state=TrialState.PRUNED, skip_if_finished=True)
    else:
        study.tell(claim.trial, value, skip_if_finished=True)
    claim.file.close()


def should_prune(claim: Claim, value: float, round: int) -> bool:
    """Report where the trial is, and return whether to stop it."""
    if round not in claim.reported:
        claim.trial.report(value, round)
    return claim.trial.should_prune()


def trial_results(study: optuna.Study, plan: Plan) -> list[TrialResult]:
    found: list[TrialResult] = []
    for trial in counted(study.get_trials(deepcopy=False)):
        value = trial.value if trial.state.is_finished() else None
        rounds, here = trial.user_attrs.get("rounds"), is_here(trial, plan)
        found.append(TrialResult(trial.number, state_of(trial), value, dict(trial.params), rounds, here))
    return found


def state_of(trial: FrozenTrial) -> str:
    if trial.state == TrialState.COMPLETE:
        return "diverged" if trial.value == DIVERGED else "finished"
    return "pruned" if trial.state == TrialState.PRUNED else "unfinished"
