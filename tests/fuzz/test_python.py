"""Arguments of the public functions that are of any type and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

import driftless
from driftless import Aggregation, EngineSettings, Faults, Federation, LocalTraining, ServerSchedule
from fuzz.fuzzing import ABSURD, only_documented_errors, share

OBJECTS: list[Any] = [
    *ABSURD, None, object(), int, nn.Linear(3, 2), nn.Linear, torch.zeros(3), torch.zeros(4, 3), torch.zeros(0),
    torch.tensor(1.0), torch.full((2, 3), torch.nan), np.zeros(3), np.zeros((4, 3)), np.array(["a"]), np.int64(2),
    np.float64(0.1), (), (1, 2), {1, 2}, b"bytes", 1j, lambda *_: None, lambda *_: torch.zeros(()), torch.float16,
    torch.float64, torch.int64, LocalTraining(), EngineSettings(), ServerSchedule(), Faults(), range(3), iter([1]),
    "block",
]  # fmt: skip
anything = st.sampled_from(OBJECTS)


def some_of(**right: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Right arguments of which one or two are replaced by anything."""
    wrong = st.dictionaries(st.sampled_from(sorted(right)), anything, min_size=1, max_size=2)
    return st.builds(lambda wrong: {**right, **wrong}, wrong)


def is_long(arguments: dict[str, Any]) -> bool:
    """Processes are forked: allowed, and long."""
    return (
        arguments.get("workers") in (2, np.int64(2)) if isinstance(arguments.get("workers"), (int, np.int64)) else False
    )


def clients() -> list[Any]:
    return [(torch.ones(n, 3), torch.arange(n) % 2) for n in (2, 3)]


FEDERATION = Federation.from_clients(clients())


@share(0.12)
@given(
    some_of(
        algorithm="fedavg",
        federation=FEDERATION,
        model=nn.Linear(3, 2),
        rounds=1,
        cohort=1,
        local=None,
        loss=None,
        weighting=None,
        seed=0,
        engine="auto",
        dtype=torch.float32,
        evaluate_every=1,
        on_round=None,
        server=None,
        faults=None,
        aggregation="median",
        inference=None,
        state=None,
    )
)
def test_simulate_runs_or_says_what_is_wrong(arguments: dict[str, Any]):
    assume(not callable(arguments["on_round"]))  # the errors of a user's function are the user's
    with only_documented_errors():
        driftless.simulate(**arguments)


@share(0.08)
@given(
    some_of(name="digits", clients=5, partition=None, seed=0, validation=0)
    | some_of(name="digits", clients=5, partition="dirichlet", alpha=0.5, sizes="balanced", seed=0)
    | some_of(name="quadratics", clients=2, dimension=2, heterogeneity=1.0, condition=2.0)
    | some_of(name="linear-regression", clients=2, dimension=2, examples=3, noise=0.1, unbalanced=0.0, covariance=0.0)
)
def test_load_loads_or_says_what_is_wrong(arguments: dict[str, Any]):
    with only_documented_errors():
        driftless.load(**arguments)


@share(0.06)
@given(
    some_of(
        clients=clients(), test=None, classes=None, validation=0, client_test=None, name="a", client_names=None, seed=0
    ),
    st.booleans(),
    anything,
)
def test_from_clients_builds_or_says_what_is_wrong(arguments: dict[str, Any], one_client: bool, value: Any):
    if one_client:
        arguments["clients"] = [*clients(), (torch.ones(2, 3), value)]
    with only_documented_errors():
        Federation.from_clients(**arguments)


@share(0.06)
@given(
    some_of(
        inputs=torch.ones(4, 3),
        targets=torch.arange(4) % 2,
        assignment=[0, 1, 0, 1],
        clients=2,
        test=None,
        classes=None,
        client_test=None,
        name="a",
        client_names=None,
        allow_empty=False,
    )
)
def test_from_assignment_builds_or_says_what_is_wrong(arguments: dict[str, Any]):
    with only_documented_errors():
        Federation.from_assignment(**arguments)


@share(0.08)
@given(
    some_of(**vars(LocalTraining())).map(lambda given: (LocalTraining, given))
    | some_of(**vars(EngineSettings())).map(lambda given: (EngineSettings, given))
    | some_of(**vars(ServerSchedule())).map(lambda given: (ServerSchedule, given))
    | some_of(**vars(Faults(dropout=0.5, attack="scale", attackers=0.5))).map(lambda given: (Faults, given))
    | some_of(**vars(Aggregation("norm-bound"))).map(lambda given: (Aggregation, given))
)
def test_settings_are_made_and_used_or_say_what_is_wrong(made: tuple[Any, dict[str, Any]]):
    cls, given = made
    names = {LocalTraining: "local", EngineSettings: "engine", ServerSchedule: "server", Faults: "faults"}
    name = names.get(cls, "aggregation")
    if is_long(given):
        return
    with only_documented_errors():
        settings = {name: cls(**given)}
        driftless.simulate("fedavg", FEDERATION, nn.Linear(3, 2), rounds=1, cohort=2, **settings)
