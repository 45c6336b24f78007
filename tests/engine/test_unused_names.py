"""An own algorithm with a misspelt method gets one warning; ours, and helpers of the usual kinds, get none."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pytest
from torch import Tensor

from driftless import ALGORITHMS, AdaptiveClipping, Algorithm, Model, simulate
from driftless.algorithm import Delta
from driftless.algorithms import FedAvg
from driftless.engine.unused_names import CLOSE, KNOWN, OF_OTHERS, unused_names
from engine.problems import linear, regression, run


@dataclass(frozen=True)
class Misspelt(FedAvg):
    def boadcast(self, server):
        return Model(server.x)


def test_a_misspelt_method_gives_one_warning_where_simulate_is_called_and_an_event():
    with pytest.warns(UserWarning, match="Misspelt defines 'boadcast'") as warned:
        result = simulate(Misspelt(), regression([3, 4]), linear(), rounds=2, cohort=2)
    (warning,) = warned
    assert warning.filename == __file__
    said = str(warning.message)
    for part in ("did you mean 'broadcast'?", "The engine knows anchor_gradient, broadcast, ", "underscore"):
        assert part in said
    assert [event.what for event in result.events if "Misspelt" in event.what] == [said]


def test_the_algorithm_inside_of_a_wrapper_is_looked_at_too():
    (sentence,) = unused_names(AdaptiveClipping(Misspelt()))
    assert sentence.startswith("Misspelt defines 'boadcast'")


def test_names_of_other_frameworks_and_methods_that_nothing_calls_are_reported_in_one_sentence():
    @dataclass(frozen=True)
    class Foreign(FedAvg):
        anchor_gradients = True

        def aggregate(self, updates):
            return sum(updates)

        def configure_fit(self, server):
            return self.configure_fit(server)

        def after_round(self, server):
            return server

        @classmethod
        def init_clients(cls, x):
            return x

    (sentence,) = unused_names(Foreign())
    for part in (
        "'anchor_gradients' (did you mean 'anchor_gradient'?)", "'aggregate' (here it is called update)",
        "'configure_fit' (here it is called broadcast)", "'after_round',",
        "'init_clients' (did you mean 'init_client'?)",
    ):  # fmt: skip
        assert part in sentence


def test_a_method_that_only_its_overriding_method_calls_is_reported_once():
    class First(FedAvg):
        def aggregate(self, updates):
            return sum(updates)

    class Second(First):
        def aggregate(self, updates):
            return super().aggregate(updates)

    (sentence,) = unused_names(Second())
    assert sentence.count("'aggregate'") == 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_none_of_our_algorithms_is_warned_about(name: str):
    assert unused_names(ALGORITHMS[name]()) == ()
    assert unused_names(AdaptiveClipping(ALGORITHMS[name]())) == ()


class Helpers:
    """A mixin."""

    def scaled(self, delta):
        return 0.5 * delta


@dataclass(frozen=True)
class Helped(Helpers, Algorithm):
    """Helpers as people write them."""

    updates: float = 1.0
    kinds: ClassVar[tuple[str, ...]] = ("a", "b")
    LARGEST = 10.0

    class State(NamedTuple):
        x: Tensor

    def update(self, server, mean, r):
        return Model(server.x + self.updated(self.scaled(mean.delta)) * self.weight)

    def updated(self, delta):
        """Its name is close to `update`."""
        return delta.clamp(-self.LARGEST, self.LARGEST)

    @property
    def weight(self) -> float:
        return self.inner_weight()

    def inner_weight(self) -> float:
        return next(self.from_list(value) for value in (1.0,))

    @functools.lru_cache  # noqa: B019
    def from_list(self, value: float) -> float:
        return getattr(self, "by_name")(value)  # noqa: B009

    def by_name(self, value: float) -> float:
        return value

    @classmethod
    def from_table(cls, table: dict) -> Helped:
        return cls(**table)

    @staticmethod
    def plotted(history) -> object:
        return history

    def upload(self, y, local, msg, client, r):
        return Delta(y - msg.x), client

    def _private(self):
        return self


def test_helpers_of_the_usual_kinds_are_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result, _ = run(Helped(), regression([3, 4]), linear())
    assert not result.events


def test_a_class_that_is_no_dataclass_can_be_looked_at():
    class Plain(Algorithm):
        strength = 0.1

        def update(self, server, mean, r):
            return Model(server.x + mean.delta)

    assert unused_names(Plain()) == ()


def test_what_the_engine_knows_is_the_interface():
    assert {"update", "upload", "direction", "weighting", "full_gradient", "server_lr"} <= set(KNOWN)
    assert not [name for name in KNOWN if name.startswith("_")]
    assert {word for names in OF_OTHERS.values() for word in names.split(" or ")} <= set(KNOWN)
    assert 0.67 < CLOSE < 0.9
