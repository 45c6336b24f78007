"""The one list of algorithms that every law runs over, and the small problems they run on.

A new algorithm gets all laws by its line in ALGORITHMS; a variant that takes another path through the code gets them
by its line in VARIANTS.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from driftless import (
    ALGORITHMS,
    AdaptiveClipping,
    Algorithm,
    EngineSettings,
    Federation,
    LocalTraining,
    Record,
    Result,
    simulate,
)
from driftless.algorithms import (
    GHBM,
    MFL,
    AdaBest,
    AdaptiveFedOpt,
    FedAdam,
    FedAvg,
    FedDyn,
    FedGBO,
    GHBMTheory,
    Mime,
    MimeLite,
    MimeLiteMom,
    MimeMom,
    Scaffold,
    ScaffoldSlim,
    ServerGHBM,
)

OPTIMIZED = {
    "fedgbo": FedGBO,
    "mime": Mime,
    "mimelite": MimeLite,
    "mfl": MFL,
    "adaptive-fedopt": AdaptiveFedOpt,
}

VARIANTS: list[tuple[str, Algorithm]] = [
    ("scaffold option=1", Scaffold(option=1)),
    *[(f"scaffold size_adaptive option={option}", Scaffold(option=option, size_adaptive=True)) for option in (1, 2)],
    ("feddyn size_adaptive", FedDyn(size_adaptive=True)),
    ("scaffold-slim retention=paper", ScaffoldSlim(retention="paper")),
    ("fedadam bias_correction=torch", FedAdam(bias_correction="torch")),
    ("fedadam bias_correction=none", FedAdam(bias_correction="none")),
    *[
        (f"{name} optimizer={optimizer}", cls(optimizer=optimizer))
        for name, cls in OPTIMIZED.items()
        for optimizer in ("rmsprop", "adam")
    ],
    # The defaults of tau are longer than the laws' runs: these leave the start.
    ("ghbm tau=2", GHBM(tau=2)),
    ("ghbm tau=2 start=clamp", GHBM(tau=2, start="clamp")),
    ("server-ghbm tau=2", ServerGHBM(tau=2)),
    ("ghbm-theory tau=1", GHBMTheory(tau=1)),
    ("ghbm-theory tau=2", GHBMTheory(tau=2)),
    ("adabest size_adaptive=False", AdaBest(size_adaptive=False)),
    ("adabest with plateau decay", AdaBest(beta_decay=0.5, plateau_rounds=1)),
    ("mimemom form=ema", MimeMom(form="ema")),
    ("mimelitemom form=ema", MimeLiteMom(form="ema")),
    # A first clipping norm between the norms of the clients' updates: some are clipped, some are not.
    *[
        (f"clipping of {name}", AdaptiveClipping(inner, initial=0.3))
        for name, inner in {
            "fedavg": FedAvg(),
            "adabest": AdaBest(),
            "scaffold": Scaffold(),
            "scaffold option=1": Scaffold(option=1),
            "fedadam": FedAdam(),
            "ghbm": GHBM(tau=2),
            "mime": Mime(beta=0.1),
        }.items()
    ],
]

ENTRIES: dict[str, Algorithm] = {name: cls() for name, cls in ALGORITHMS.items()} | dict(VARIANTS)
NAMES = list(ENTRIES)
KINDS = [
    "fedavg",  # no state at all
    "fedadam",  # a state of the server
    "scaffold",  # states of the clients
    "adabest",  # both, and a field that is averaged in another way
    "fedhbm",  # clients that keep a model
    "ghbm tau=2",  # former models of the server
    "mfl optimizer=adam",  # a local state that changes in every step
    "mimelite",  # full gradients after the local steps
    "mime",  # full gradients before them, and gradients at the server's model
    "clipping of scaffold option=1",  # a wrapper
]
"""One of each structure, for laws that are about the engine: it sees nothing else of an algorithm."""

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
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)).double()


@functools.cache
def network() -> nn.Module:
    """A hidden layer, with dropout before and after it."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)).double()


PROBLEMS = {"regression": (regression, linear), "classification": (classification, network)}


def local_training(algorithm: Algorithm, **wanted: Any) -> LocalTraining:
    """The wanted local training, except where the algorithm is defined for one kind only."""
    required: dict[str, Any] = dict(algorithm.local_must_be)
    if "steps" in required:
        wanted.pop("epochs", None)
    return LocalTraining(**{**wanted, **required})


@dataclass(frozen=True)
class Setting:
    """How the laws run an algorithm; hashable, so that a run that several laws look at is made once."""

    problem: str = "regression"
    training: tuple[tuple[str, object], ...] = (("lr", 0.1), ("epochs", 1), ("batch_size", 3))
    engine: str = "block"
    block_size: int | None = None
    cohort: int | None = None
    """None: COHORTS."""
    rounds: int = ROUNDS
    seed: int = 0
    dtype: torch.dtype = torch.float64
    weighting: str | None = None
    """"other": the one that is not the algorithm's own."""


class Trace(NamedTuple):
    records: tuple[Record, ...]
    result: Result


def play(name: str, setting: Setting, **overrides: Any) -> Trace:
    """Run an entry, keeping the record of every round."""
    algorithm = ENTRIES[name]
    make_federation, make_module = PROBLEMS[setting.problem]
    federation, module = make_federation(), make_module()
    weighting = setting.weighting
    if weighting == "other":
        weighting = "uniform" if algorithm.weighting == "examples" else "examples"
    options: dict[str, Any] = {
        "rounds": setting.rounds,
        "cohort": setting.cohort or COHORTS,
        "local": local_training(algorithm, **dict(setting.training)),
        "engine": EngineSettings(setting.engine, setting.block_size),
        "seed": setting.seed,
        "dtype": setting.dtype,
        "weighting": weighting,
        "evaluate_every": 0,
    }
    records: list[Record] = []
    result = simulate(algorithm, federation, module, **{**options, **overrides}, on_round=records.append)
    return Trace(tuple(records), result)


@functools.cache
def trace(name: str, setting: Setting) -> Trace:
    return play(name, setting)
