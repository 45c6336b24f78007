from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from driftless import InputError, LocalTraining
from driftless.engine.batches import plan
from driftless.random import stream
from engine.problems import linear, regression, run

FEDERATION = regression([4, 7])
RATES = [0.2, 0.05, 0.1, 0.1]


def halved(t: int) -> float:
    return 0.4 / 2**t


def training(lr, **options) -> LocalTraining:
    return LocalTraining(lr=lr, steps=3, batch_size=2, **options)


def test_the_last_value_of_a_list_stays_and_the_decay_multiplies():
    assert [training([0.2, 0.05]).lr_at(t) for t in (1, 2, 3, 9)] == [0.2, 0.05, 0.05, 0.05]
    assert [training([0.4, 0.2], lr_decay=0.5).lr_at(t) for t in (1, 2, 3)] == [0.4, 0.1, 0.05]
    assert [training(halved, lr_decay=0.5).lr_at(t) for t in (1, 2)] == [0.2, 0.05]


@pytest.mark.parametrize("engine", ["single", "block"])
def test_each_round_is_trained_with_its_own_learning_rate(engine: str):
    """As three runs of one round with a number each, of which each begins where the one before ended."""
    result, records = run("fedavg", FEDERATION, linear(), local=training(RATES), engine=engine, rounds=4)
    assert result.history["lr"] == RATES
    state = None
    for t, lr in enumerate(RATES, start=1):
        part, _ = run("fedavg", FEDERATION, linear(), local=training(lr), engine=engine, rounds=t, state=state)
        assert torch.equal(part.x, records[t - 1].x)
        state = part.state


@pytest.mark.parametrize(
    "lr", [tuple(RATES), np.array(RATES), torch.tensor(RATES, dtype=torch.float64), lambda t: RATES[t - 1]]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_any_sequence_and_a_function_give_the_bits_of_the_list(lr, workers: int):
    expected, _ = run("scaffold", FEDERATION, linear(), local=training(RATES), rounds=4)
    result, _ = run("scaffold", FEDERATION, linear(), local=training(lr), rounds=4, workers=workers, block_size=1)
    torch.testing.assert_close(result.x, expected.x, rtol=0, atol=1e-14)
    assert result.history["lr"] == RATES


def test_a_function_is_called_once_for_each_round_before_the_first():
    calls: list[int] = []

    def lr(t: int) -> float:
        calls.append(t)
        return 0.1 / t

    _, records = run("fedavg", FEDERATION, linear(), local=training(lr), rounds=3)
    assert calls == [1, 2, 3]
    assert [record.metrics["lr"] for record in records] == [0.1, 0.05, 0.1 / 3]


def test_settings_with_a_list_can_be_compared_and_hashed_and_the_list_of_the_user_is_not_theirs():
    rates = [0.1, 0.2]
    given = training(rates)
    rates.append(-1)
    assert given.lr == (0.1, 0.2)
    assert (given, hash(given)) == (training((0.1, 0.2)), hash(training((0.1, 0.2))))
    assert given != training((0.1, 0.3))
    assert len({given, training(halved), training(halved)}) == 2
    assert plan(given, 5, stream(0, "test")).count.tolist() == plan(training(0.1), 5, stream(0, "test")).count.tolist()


@pytest.mark.parametrize(
    ("lr", "message"),
    [
        ([], "local.lr is an empty list; give a number, or one for each round"),
        ([0.1, 0.0], r"local.lr of round 2 must be a number in \(0, inf\), got 0.0"),
        ([0.1, math.nan], "local.lr of round 2 must be a number .* got nan"),
        ([math.inf], "local.lr of round 1 must be a number"),
        ([0.1, "0.1"], "local.lr of round 2 must be a number"),
        ([[0.1]], r"local.lr of round 1 must be a number .* got \[0.1\]"),
        ("[0.1]", "local.lr must be a number"),
        (None, "local.lr must be a number"),
        ({0.1}, "local.lr must be a number"),
        (lambda t: 0.1 * (3 - t), "local.lr of round 3 must be a number .* got 0.0"),
        (lambda t: None, "local.lr of round 1 must be a number .* got None"),
        (lambda t: True, "local.lr of round 1 must be a number .* got True"),
    ],
)
def test_a_learning_rate_that_cannot_be_is_refused_with_its_round_before_the_first(lr, message: str):
    rounds: list[object] = []
    with pytest.raises(InputError, match=message):
        run("fedavg", FEDERATION, linear(), local=training(lr), rounds=4, on_round=rounds.append)
    assert rounds == []


def test_an_error_in_the_users_function_is_shown_with_the_round():
    def lr(t: int) -> float:
        return 1 / (t - 2)

    with pytest.raises(ZeroDivisionError) as error:
        run("fedavg", FEDERATION, linear(), local=training(lambda t: abs(lr(t)) + 1))
    assert error.value.__notes__ == ["driftless was calling local.lr for round 2"]
