"""A user's own algorithm has the same rights as ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from driftless import AdaptiveClipping, Algorithm, InputError, LocalTraining, Model, ServerSchedule
from driftless.algorithms import FedAvg
from engine.own import Keeper, Probe
from engine.problems import classification, linear, network, regression, run, vector


@dataclass(frozen=True)
class Bare(Algorithm):
    """The least a user has to write: everything else is FedAvg's."""

    def update(self, server, mean, r):
        return Model(server.x + mean.delta)


class Server(NamedTuple):
    x: Tensor
    sent: tuple[Tensor, ...]
    mean: Tensor


class Message(NamedTuple):
    x: Tensor
    push: Tensor


class Local(NamedTuple):
    sums: tuple[Tensor, Tensor]


class Client(NamedTuple):
    h: Tensor
    times: Tensor


class Upload(NamedTuple):
    delta: Tensor
    average: Tensor
    correction: Tensor


@dataclass(frozen=True)
class Everything(Algorithm):
    """Uses all the engine offers: states of every kind, the anchor gradient and both full-batch gradients."""

    server_lr: float = 0.8
    strength: float = 0.3

    weighting = "uniform"
    uniform = frozenset({"average"})
    anchor_gradient = True
    full_gradient = "before"

    def init_server(self, x, facts):
        return Server(x, (x, torch.zeros_like(x)), x.new_tensor(facts.clients))

    def init_client(self, x):
        return Client(0.1 * x, x.new_zeros(()))

    def broadcast(self, server):
        return Message(server.x, server.sent[0] - server.x)

    def init_local(self, msg, client, r):
        return Local((torch.zeros_like(msg.x), r.steps * client.times))

    def direction(self, step, local, msg, client, r):
        g = step.g - step.g_x + 0.5 * (r.cohort_gradient + r.gradient)
        d = g + self.strength * (step.y - msg.x) - 0.1 * client.h + 0.05 * msg.push + 0.01 * local.sums[1]
        return d, Local((local.sums[0] + g, local.sums[1] + 1))

    def upload(self, y, local, msg, client, r):
        average = local.sums[0] / r.steps
        return Upload(y - msg.x, average, r.gradient), Client(average, client.times + r.t)

    def update(self, server, mean, r):
        x = server.x + self.server_lr * mean.delta - 0.01 * mean.average + 0.01 * r.cohort / r.clients * mean.correction
        return Server(x, (server.x, mean.average), r.steps * r.examples)


PROBLEMS = {
    "regression": lambda: (regression([3, 7, 4, 9]), linear()),
    "network": lambda: (classification([3, 7, 4, 9]), network(dropout=0.2)),
}


@pytest.mark.parametrize("algorithm", [Bare(), Everything(), Keeper(), Probe()], ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_users_own_algorithm_runs_alike_with_both_engines(algorithm, problem: str):
    federation, module = PROBLEMS[problem]()
    local = LocalTraining(lr=0.1, epochs=2, batch_size=3)
    options = {"rounds": 4, "cohort": [[0, 1, 3], [1, 2], [0, 2, 3], [3, 1]], "local": local}
    _, single = run(algorithm, federation, module, engine="single", **options)
    _, block = run(algorithm, federation, module, engine="block", block_size=2, **options)
    for one, other in zip(single, block, strict=True):
        torch.testing.assert_close(one.server, other.server, rtol=0, atol=1e-12)
    assert (single[-1].x - vector(module)).norm() > 1e-2


def test_the_least_an_algorithm_can_be_is_federated_averaging():
    federation, module = regression([3, 7, 4]), linear()
    own, _ = run(Bare(), federation, module)
    ours, _ = run("fedavg", federation, module)
    assert torch.equal(own.x, ours.x)


def test_a_users_own_algorithm_can_be_clipped_scaled_and_continued():
    federation, module = regression([3, 7, 4]), linear()
    clipped = AdaptiveClipping(Everything(), initial=0.05)
    schedule = ServerSchedule("sqrt", reference_cohort=1, warmup_rounds=3)
    whole, _ = run(clipped, federation, module, rounds=4, server=schedule)
    first, _ = run(clipped, federation, module, rounds=2, server=schedule)
    second, _ = run(clipped, federation, module, rounds=4, server=schedule, state=first.state)
    assert torch.equal(second.x, whole.x)
    plain, _ = run(Everything(), federation, module, rounds=4, server=schedule)
    assert not torch.allclose(whole.x, plain.x)


def test_a_users_own_requirement_on_the_local_training_is_obeyed():
    @dataclass(frozen=True)
    class OneEpoch(FedAvg):
        local_must_be = {"epochs": 1, "batch_size": 2}  # noqa: RUF012

    federation, module = regression([4, 6]), linear()
    own, _ = run(OneEpoch(), federation, module, local=None)
    plain, _ = run("fedavg", federation, module, local=LocalTraining(epochs=1, batch_size=2))
    assert torch.equal(own.x, plain.x)
    with pytest.raises(InputError, match=r"OneEpoch is defined for local.epochs=1, local.batch_size=2; got"):
        run(OneEpoch(), federation, module, local=LocalTraining(epochs=2, batch_size=2))


def test_a_users_own_schedule_of_cohorts_is_used_as_it_is():
    class Alternating:
        def size(self, t, clients):
            return 1

        def clients(self, t, clients, seed):
            return np.array([t % clients])

        def check(self, clients, rounds):
            return None

    federation, module = regression([3, 5]), linear()
    own, _ = run(Keeper(), federation, module, rounds=3, cohort=Alternating())
    listed, _ = run(Keeper(), federation, module, rounds=3, cohort=[[1], [0], [1]])
    assert torch.equal(own.x, listed.x)
