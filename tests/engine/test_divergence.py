"""A run whose loss has grown beyond all measure is a diverged one, though every update was finite."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftless import LocalTraining, load, simulate
from driftless.engine.divergence import FACTOR, grown_loss

LOCAL = LocalTraining(lr=0.1, epochs=1, batch_size=None)


def rows_of(train: list[float | None], test: list[float | None] | None = None) -> list[dict[str, Any]]:
    """As a run writes them: what is not finite is missing."""
    rows: list[dict[str, Any]] = []
    for t, loss in enumerate(train, 1):
        row = {"round": t, "norm_update": 1.0, "train_loss": loss, "test_loss": test[t - 1] if test else None}
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def test_a_training_loss_that_ends_a_thousand_times_as_high_is_named_with_its_rounds_and_a_remedy():
    assert grown_loss(rows_of([2.3, 0.5, 1e22]), LOCAL, evaluated=False) == (
        "diverged: the training loss rose from 0.5 (round 2) to 1e+22 (round 3). "
        "Try a smaller local.lr, or local.clip_norm=10."
    )
    clipped = LocalTraining(lr=0.1, epochs=1, batch_size=None, clip_norm=1.0)
    assert str(grown_loss(rows_of([2.3, 1e22]), clipped, evaluated=False)).endswith("Try a smaller local.lr.")


def test_a_test_loss_that_grew_is_found_though_the_training_loss_did_not():
    found = grown_loss(rows_of([2.3, 2.2], [2.3, 1e9]), LOCAL, evaluated=True)
    assert "the test loss rose from 2.3 (round 1) to 1e+09 (round 2)" in str(found)


@pytest.mark.parametrize(
    "losses",
    [[2.3, 2000.0], [1e-9, 900.0], [5e6, 4e6, 4.5e6], [2.3, 1e22, 1.7], [2.3], []],
    ids=["less than a thousandfold", "large only beside a tiny one", "a loss of another scale", "it came back",
         "one round", "no round"],
)  # fmt: skip
def test_a_loss_that_is_only_bad_is_not_diverged(losses: list[float | None]):
    assert grown_loss(rows_of(losses), LOCAL, evaluated=False) is None


def test_a_last_loss_that_is_not_finite_is_diverged():
    assert "the training loss of round 2 is not a finite" in str(grown_loss(rows_of([2.3, None]), LOCAL, False))
    assert "the test loss of round 2 is not a finite" in str(grown_loss(rows_of([2.3, 2.2], [2.3, None]), LOCAL, True))


def test_a_loss_that_was_not_measured_in_the_last_round_is_not_diverged():
    lost = [*rows_of([2.3]), {"round": 2}]
    assert grown_loss(lost, LOCAL, evaluated=False) is None
    assert grown_loss(rows_of([2.3, 2.2], [2.3, None]), LOCAL, evaluated=False) is None


@given(st.lists(st.floats(0, 1e30, allow_nan=False), min_size=1, max_size=8))
def test_the_rule_is_a_thousand_times_the_lowest_and_at_least_one(losses: list[float]):
    found = grown_loss(rows_of([*losses]), LOCAL, evaluated=False)
    assert (found is not None) == (losses[-1] > FACTOR * max(1.0, min(losses)))


def test_simulate_says_it_in_an_event_and_returns_the_result():
    federation = load("digits", clients=10)
    grows = LocalTraining(lr=0.1, epochs=1, batch_size=None, weight_decay=1e7)
    result = simulate("fedavg", federation, "logistic", rounds=5, cohort=5, local=grows)
    assert math.isfinite(result.history[-1]["train_loss"])
    assert result.events[-1].round == 5
    assert "the training loss rose from" in result.events[-1].what
    assert "the training loss rose from" in str(result)
    good = simulate(
        "fedavg", federation, "logistic", rounds=5, cohort=5, local=LocalTraining(lr=0.1, epochs=1, batch_size=None)
    )
    assert good.events == []
    part = simulate("fedavg", federation, "logistic", rounds=2, cohort=5, local=grows)
    rest = simulate("fedavg", federation, "logistic", rounds=5, cohort=5, local=grows, state=part.state)
    assert "the training loss rose from" in rest.events[-1].what
