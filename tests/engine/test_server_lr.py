from __future__ import annotations

import math

import pytest
import torch

from driftless import AdaptiveClipping, InputError, ServerSchedule
from driftless.algorithms import AdaBest, FedAvg, FedDyn, FedGBO, ScaffoldSlim
from driftless.data import Doubling
from engine.problems import linear, regression, run, vector


def rates(schedule: ServerSchedule, base: float, cohort: int, rounds: int) -> list[float]:
    return [schedule.server_lr(base, t, cohort) for t in range(1, rounds + 1)]


@pytest.mark.parametrize(
    ("scaling", "cohort", "expected"),
    [
        ("none", 40, 0.5),
        ("sqrt", 40, 1.0),
        ("linear", 40, 2.0),
        ("sqrt", 10, 0.5),
        ("linear", 5, 0.25),
        ("sqrt", 90, 1.5),
    ],
)
def test_the_server_lr_scales_with_the_cohort(scaling: str, cohort: int, expected: float):
    """Tuned at 0.5 for 10 clients: sqrt(40/10) = 2, 40/10 = 4."""
    assert rates(ServerSchedule(scaling, reference_cohort=10), 0.5, cohort, 2) == [expected] * 2


def test_warm_up_from_zero_by_hand():
    """server_lr' = 2 * 0.5 = 1, W = 4: a quarter more each round, then constant."""
    schedule = ServerSchedule("sqrt", reference_cohort=10, warmup_rounds=4, warmup_from="zero")
    assert rates(schedule, 0.5, 40, 6) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_warm_up_from_the_base_by_hand():
    """From 0.5 to server_lr' = 4 * 0.5 = 2 over W = 3: 0.5 + 1.5 * t/3."""
    schedule = ServerSchedule("linear", reference_cohort=10, warmup_rounds=3, warmup_from="base")
    assert rates(schedule, 0.5, 40, 5) == pytest.approx([1.0, 1.5, 2.0, 2.0, 2.0], rel=1e-15)


def test_warm_up_without_scaling():
    assert rates(ServerSchedule(warmup_rounds=2), 0.8, 7, 3) == [0.4, 0.8, 0.8]
    assert rates(ServerSchedule(warmup_rounds=2, warmup_from="base"), 0.8, 7, 3) == [0.8, 0.8, 0.8]


@pytest.mark.parametrize("wrapped", [False, True])
def test_each_round_steps_with_the_rate_of_its_cohort(wrapped: bool):
    """FedAvg moves by server_lr' times the mean update: cohorts of 2, 2, 4, 4 with reference 2 and W = 2."""
    federation, module = regression([3, 5, 4, 6]), linear()
    algorithm = AdaptiveClipping(FedAvg(0.5), initial=1e6) if wrapped else FedAvg(0.5)
    schedule = ServerSchedule("linear", reference_cohort=2, warmup_rounds=2)
    result, records = run(algorithm, federation, module, rounds=4, cohort=Doubling(2, 2, 4), server=schedule)
    assert result.history["cohort"] == [2, 2, 4, 4]
    before = vector(module)
    for record, rate in zip(records, [0.25, 0.5, 1.0, 1.0], strict=True):
        torch.testing.assert_close(record.x - before, rate * (record.aggregate - before), rtol=0, atol=1e-14)
        assert (record.x - before).norm() > 1e-3
        before = record.x


def test_a_schedule_continues_where_a_stopped_run_left_it():
    federation, module, schedule = regression([3, 5, 4]), linear(), ServerSchedule(warmup_rounds=4)
    whole, _ = run(FedAvg(0.5), federation, module, rounds=4, server=schedule)
    first, _ = run(FedAvg(0.5), federation, module, rounds=2, server=schedule)
    second, _ = run(FedAvg(0.5), federation, module, rounds=4, server=schedule, state=first.state)
    assert torch.equal(second.x, whole.x)


@pytest.mark.parametrize(
    "algorithm",
    [FedDyn(), AdaBest(), ScaffoldSlim(), FedGBO(), AdaptiveClipping(FedDyn())],
    ids=lambda a: type(a).__name__,
)
@pytest.mark.parametrize("schedule", [ServerSchedule("sqrt", 10), ServerSchedule(warmup_rounds=3)])
def test_an_algorithm_without_server_lr_cannot_be_scaled_or_warmed_up(algorithm, schedule):
    with pytest.raises(InputError) as error:
        run(algorithm, regression([3, 4]), linear(), server=schedule)
    for part in (f"{type(algorithm).__name__} has no server_lr", "lr_scaling = none", "warmup_rounds = 0"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"lr_scaling": "sqrt"}, ("lr_scaling='sqrt'", "server.reference_cohort", "e.g.")),
        ({"lr_scaling": "cubic", "reference_cohort": 3}, ("'cubic'", "'none', 'sqrt', 'linear'")),
        ({"warmup_rounds": 2, "warmup_from": "one"}, ("'one'", "'zero', 'base'")),
        ({"lr_scaling": "sqrt", "reference_cohort": 0}, ("reference_cohort", "at least 1", "0")),
        ({"warmup_rounds": -1}, ("warmup_rounds", "at least 0", "-1")),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(options: dict, parts: tuple[str, ...]):
    with pytest.raises(InputError) as error:
        ServerSchedule(**options)
    for part in parts:
        assert part in str(error.value)


def test_the_default_schedule_leaves_the_algorithm_alone():
    algorithm = FedAvg(0.7)
    assert ServerSchedule().is_constant
    assert ServerSchedule().apply(algorithm, 1, 10) is algorithm
    assert math.isclose(ServerSchedule("sqrt", 5).apply(algorithm, 1, 20).server_lr, 1.4)
