"""The one list of algorithms that every law runs over.

A new algorithm gets all laws by its line in ALGORITHMS; a variant that takes another path through the code gets them
by its line in VARIANTS.
"""

from __future__ import annotations

from typing import Any

from driftless import ALGORITHMS, AdaptiveClipping, Algorithm
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
from driftless.testing import problems
from driftless.testing.problems import COHORTS, Setting, Trace, classification, linear, local_training, regression

__all__ = [
    "COHORTS",
    "ENTRIES",
    "KINDS",
    "NAMES",
    "Setting",
    "classification",
    "linear",
    "local_training",
    "play",
    "regression",
    "trace",
]

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


def play(name: str, setting: Setting, **overrides: Any) -> Trace:
    return problems.play(ENTRIES[name], setting, **overrides)


def trace(name: str, setting: Setting) -> Trace:
    """The same, made once."""
    return problems.trace(ENTRIES[name], setting)
