"""The small problems on which the laws run an algorithm: two federations of unequal clients, in double precision."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from driftless.algorithm import Algorithm
from driftless.data.federation import Federation
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.engine.settings import EngineSettings
from driftless.result import Result
from driftless.simulate import simulate

SIZES = [3, 7, 4, 9, 5, 6, 2]
"""Examples of each client; 9 is more than twice 4, and 2 is less than a batch."""
ROUNDS = 4
COHORTS = [[0, 1, 3], [2, 4, 5], [1, 3, 4], [0, 3, 5]]
"""Client 6 never takes part, client 3 three times, client 0 returns after two rounds."""


@functools.cache
def regression() -> Federation:
    """Linear regression whose clients disagree, unbalanced."""
    generator = torch.Generator().manual_seed(1)
    clients = []
    for i, n in enumerate(SIZES):
        inputs = torch.randn(n, 3, generator=generator, dtype=torch.float64)
        weights = torch.randn(3, generator=generator, dtype=torch.float64)
        clients.append((inputs, inputs @ weights + 0.1 * i))
    return Federation.from_clients(clients)


@functools.cache
def classification() -> Federation:
    """Three classes, the labels skewed from client to client, unbalanced."""
    generator = torch.Generator().manual_seed(2)
    clients = []
    for i, n in enumerate(SIZES):
        labels = (torch.randint(0, 2, (n,), generator=generator) + i) % 3
        inputs = torch.randn(n, 4, generator=generator, dtype=torch.float64)
        inputs[:, 0] += labels
        clients.append((inputs, labels))
    return Federation.from_clients(clients, classes=3)


@functools.cache
def linear() -> nn.Module:
    with torch.random.fork_rng(()):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)).double()


@functools.cache
def network() -> nn.Module:
    """A hidden layer, with dropout before and after it."""
    with torch.random.fork_rng(()):
        torch.manual_seed(4)
        return nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)).double()


PROBLEMS = {"regression": (regression, linear), "classification": (classification, network)}


@dataclass(frozen=True)
class Setting:
    """How the laws run an algorithm; hashable, so that a run that several laws look at is made once."""

    problem: str = "regression"
    training: tuple[tuple[str, object], ...] = (("lr", 0.1), ("epochs", 1), ("batch_size", 3))
    engine: str = "block"
    block_size: int | None = None
    workers: int = 1
    replay: bool = True
    cohort: int | None = None
    """None: COHORTS."""
    rounds: int = ROUNDS
    seed: int = 0
    dtype: torch.dtype = torch.float64
    weighting: str | None = None
    """"other": the one that is not the algorithm's own."""

    @property
    def one_by_one(self) -> Setting:
        """The same, one client after the other."""
        return replace(self, engine="single", block_size=None)


UNEQUAL = Setting()
"""Epochs over unequal sizes: unequal step counts, short last batches, clients smaller than a batch."""
NETWORK = Setting(
    problem="classification",
    training=(
        ("lr", 0.2), ("epochs", 1), ("batch_size", 3), ("weight_decay", 0.1), ("clip_norm", 0.5), ("lr_decay", 0.8),
    ),
    weighting="other",
    block_size=2,
    rounds=2,
)  # fmt: skip
"""A network with dropout, weight decay, clipped gradients, a decaying learning rate and the other weighting."""
IN_BLOCKS = {
    "unequal step counts": UNEQUAL,
    "blocks smaller than the cohort": replace(UNEQUAL, block_size=2),
    "equal step counts": replace(UNEQUAL, training=(("lr", 0.1), ("steps", 2), ("batch_size", 2)), rounds=3),
    "bootstrapped batches": replace(
        UNEQUAL, training=(("lr", 0.1), ("epochs", 1), ("batch_size", 4), ("last_batch", "bootstrap")), rounds=2
    ),
    "full local batches of unequal size": replace(
        UNEQUAL, training=(("lr", 0.1), ("steps", 2), ("batch_size", None), ("lr_decay", 0.7)), rounds=2
    ),
    "a network with dropout, weight decay and clipping": NETWORK,
}
"""Settings in which a block of clients takes different ways."""


def local_training(algorithm: Algorithm, **wanted: Any) -> LocalTraining:
    """The wanted local training, except where the algorithm is defined for one kind only."""
    required: dict[str, Any] = dict(algorithm.local_must_be)
    if "steps" in required:
        wanted.pop("epochs", None)
    return LocalTraining(**{**wanted, **required})


class Trace(NamedTuple):
    """A run with the record of every round; the states in the records can be continued."""

    records: tuple[Record, ...]
    result: Result


def play(algorithm: Algorithm, setting: Setting, **overrides: Any) -> Trace:
    make_federation, make_module = PROBLEMS[setting.problem]
    weighting = setting.weighting
    if weighting == "other":
        weighting = "uniform" if algorithm.weighting == "examples" else "examples"
    options: dict[str, Any] = {
        "rounds": setting.rounds,
        "cohort": setting.cohort or COHORTS,
        "local": local_training(algorithm, **dict(setting.training)),
        "engine": EngineSettings(setting.engine, setting.block_size, workers=setting.workers, replay=setting.replay),
        "seed": setting.seed,
        "dtype": setting.dtype,
        "weighting": weighting,
        "evaluate_every": 0,
        "device": "cpu",
    }
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record._replace(state=record.state.copy()))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*which the engine does not know")  # a law of its own
        result = simulate(algorithm, make_federation(), make_module(), **{**options, **overrides}, on_round=keep)
    return Trace(tuple(records), result)


class Traces:
    """Runs that were made, by the algorithm itself and the setting: the laws of one algorithm look at the same ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[int, Setting], tuple[Algorithm, Trace]] = {}
        """Not by equality, which a user's class may not have; with the algorithm, so that its id stays its own."""

    def __call__(self, algorithm: Algorithm, setting: Setting) -> Trace:
        key = id(algorithm), setting
        if key not in self._kept:
            made = play(algorithm, setting)
            while len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = algorithm, made
        return self._kept[key][1]


trace = Traces(most=500)
