"""Which model is evaluated: the cloud's, the aggregate, or the mean of all clients' last models."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from driftless.algorithms import AdaBest, FedAvg, FedDyn
from engine.own import Keeper, Poisoned, reached
from engine.problems import linear, regression, run, vector

COHORTS = [[0, 1], [1, 3], [0, 3], [3]]
"""Client 2 never takes part, client 4 neither."""
both_engines = pytest.mark.parametrize("engine", ["single", "block"])


def problem():
    return regression([3, 4, 5, 6, 4]), linear()


@both_engines
def test_cloud_and_aggregate_are_the_vectors_of_the_last_round(engine: str):
    options = {"rounds": 4, "cohort": COHORTS, "engine": engine}
    cloud, records = run(FedAvg(0.5), *problem(), **options, inference="cloud")
    aggregate, _ = run(FedAvg(0.5), *problem(), **options, inference="aggregate")
    assert torch.equal(cloud.inference, records[-1].x)
    assert torch.equal(aggregate.inference, records[-1].aggregate)
    assert torch.equal(cloud.x, aggregate.x)
    assert not torch.allclose(cloud.inference, aggregate.inference)


@both_engines
def test_clients_is_the_mean_over_all_clients_of_their_last_model(engine: str):
    federation, module = problem()
    result, _ = run(Keeper(0.5), federation, module, rounds=4, cohort=COHORTS, engine=engine, inference="clients")
    x0 = vector(module)
    models = [reached(result, 0), reached(result, 1), x0, reached(result, 3), x0]
    torch.testing.assert_close(result.inference, sum(models) / 5, rtol=0, atol=1e-13)
    assert not torch.allclose(result.inference, result.x)


@both_engines
def test_clients_is_tracked_in_every_round_and_across_an_interruption(engine: str):
    federation, module = problem()
    options = {"cohort": COHORTS, "engine": engine, "inference": "clients"}
    whole, records = run(Keeper(0.5), federation, module, rounds=4, **options)
    state = None
    for t in range(1, 5):
        part, _ = run(Keeper(0.5), federation, module, rounds=t, state=state, **options)
        state = part.state
        seen = [client in part.state.clients for client in range(5)]
        models = [reached(part, c) if seen[c] else vector(module) for c in range(5)]
        torch.testing.assert_close(part.inference, sum(models) / 5, rtol=0, atol=1e-13)
        inputs, targets = federation.test
        loss = 0.5 * F.mse_loss(part.module()(inputs).detach(), targets)
        assert records[t - 1].metrics["test_loss"] == pytest.approx(float(loss), rel=1e-12)
    assert torch.equal(part.inference, whole.inference)


@pytest.mark.parametrize("algorithm", [AdaBest(), FedDyn(mu=0.1)], ids=lambda a: type(a).__name__)
def test_adabest_and_feddyn_evaluate_the_aggregate_by_default(algorithm):
    default, records = run(algorithm, *problem(), rounds=4, cohort=COHORTS)
    torch.testing.assert_close(default.inference, records[-1].aggregate, rtol=0, atol=1e-14)
    assert not torch.allclose(default.inference, records[-1].x)
    cloud, _ = run(algorithm, *problem(), rounds=4, cohort=COHORTS, inference="cloud")
    assert torch.equal(cloud.inference, records[-1].x)


@pytest.mark.parametrize("inference", ["cloud", "aggregate", "clients"])
def test_the_choice_is_what_the_module_and_the_test_loss_are_made_from(inference: str):
    federation, module = problem()
    result, _ = run(AdaBest(), federation, module, rounds=4, cohort=COHORTS, inference=inference)
    assert torch.equal(vector(result.module()), result.inference)
    inputs, targets = federation.test
    loss = 0.5 * F.mse_loss(result.module()(inputs).detach(), targets)
    assert result.history["test_loss"][-1] == pytest.approx(float(loss), rel=1e-12)


@pytest.mark.parametrize("inference", [None, "cloud", "aggregate"])
def test_another_choice_when_continuing_is_obeyed(inference: str | None):
    """A first part that tracked the clients' models must not decide what the second evaluates."""
    federation, module = problem()
    first, _ = run(FedAvg(0.5), federation, module, rounds=2, cohort=COHORTS, inference="clients")
    options = {"rounds": 4, "cohort": COHORTS, "inference": inference}
    second, _ = run(FedAvg(0.5), federation, module, state=first.state, **options)
    whole, _ = run(FedAvg(0.5), federation, module, **options)
    assert torch.equal(second.x, whole.x)
    assert torch.equal(second.inference, whole.inference)


@both_engines
def test_the_models_of_a_lost_round_do_not_count(engine: str):
    federation, module = problem()
    bad = Poisoned(place="server", rounds=(2,))
    one, _ = run(bad, federation, module, rounds=1, cohort=COHORTS, engine=engine, inference="clients")
    two, _ = run(bad, federation, module, rounds=2, cohort=COHORTS, engine=engine, inference="clients", state=one.state)
    assert torch.equal(one.inference, two.inference)
