"""`local.momentum` against NumPy references and torch.optim.SGD, and the ways of computing it against each other."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from driftless import ALGORITHMS, EngineSettings, InputError, LocalTraining, simulate
from driftless.engine.batches import plan
from driftless.engine.local import Progress, initial_velocity, with_momentum
from driftless.random import stream
from reference import local_momentum as reference
from reference.base import Problem

from .problems import COHORTS, LR, SIZES, assert_close, assert_different, mlp, regression, run

MOMENTUM = 0.7
REFERENCES = {
    "fedavg": (reference.fedavg, {}),
    "fedprox": (reference.fedprox, {"mu": 0.5}),
    "scaffold": (reference.scaffold, {}),
}


def training(**options) -> LocalTraining:
    return LocalTraining(**{"lr": LR, "epochs": 2, "batch_size": 5, "momentum": MOMENTUM} | options)


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("engine", ["single", "block"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_trajectory_is_that_of_the_reference(name: str, engine: str, weighting: str):
    """Full batches, and weight decay, which is part of the gradient."""
    refer, hyper = REFERENCES[name]
    bench = regression()
    data = [tuple(part.numpy() for part in bench.federation.client(i)) for i in range(len(SIZES))]
    problem = Problem(data, [slice(0, 6)], weight_decay=0.1)  # pyright: ignore[reportArgumentType]
    local = LocalTraining(lr=LR, steps=4, batch_size=None, weight_decay=0.1, lr_decay=0.9, momentum=MOMENTUM)

    def lr(t: int) -> float:
        return LR * 0.9 ** (t - 1)

    expected = refer(problem, np.linspace(-1.0, 1.5, 6), COHORTS, 4, lr, MOMENTUM, weighting, **hyper)
    algorithm = ALGORITHMS[name](**hyper)
    records = run(algorithm, bench, local=local, engine=engine, weighting=weighting)
    for record, row in zip(records, expected, strict=True):
        assert_close(record.x, row["x"])
    assert_different(
        records, run(algorithm, bench, local=training(epochs=None, steps=4, batch_size=None, momentum=0.0))
    )


@pytest.mark.parametrize("engine", ["single", "block"])
def test_a_client_trains_as_with_torch_optim_sgd(engine: str):
    """Minibatches of unequal clients, so that blocks have padding and clients that finish early."""
    bench, local = mlp(), training(weight_decay=0.05)
    records = run("fedavg", bench, local=local, engine=engine, weighting="uniform")
    x = bench.x0
    for record, cohort in zip(records, COHORTS, strict=True):
        reached = []
        for client in cohort:
            module = copy.deepcopy(bench.module)
            vector_to_parameters(x.clone(), module.parameters())
            optimizer = torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=0.05)
            inputs, targets = bench.federation.client(client)
            planned = plan(local, len(inputs), stream(0, "batches", record.round, client))
            for row, n in zip(planned.index, planned.count, strict=True):
                optimizer.zero_grad()
                F.cross_entropy(module(inputs[row[:n]]), targets[row[:n]]).backward()
                optimizer.step()
            reached.append(parameters_to_vector(module.parameters()).detach())
        x = torch.stack(reached).mean(0)
        assert_close(record.x, x, 1e-12)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "fedsgd"])
def test_single_and_block_agree_for_every_algorithm(name: str):
    single, block = (run(name, mlp(), local=training(), engine=engine) for engine in ("single", "block"))
    for a, b in zip(single, block, strict=True):
        assert_close(a.x, b.x)


def test_replay_and_the_number_of_processes_change_no_bit():
    bench = mlp()
    settings = {"rounds": len(COHORTS), "cohort": COHORTS, "local": training(), "dtype": torch.float64}
    expected, *others = (
        simulate("scaffold", bench.federation, bench.module, **settings, engine=EngineSettings("block", 1, **engine)).x
        for engine in ({"workers": 1}, {"workers": 2}, {"workers": 1, "replay": False})
    )
    assert all(torch.equal(expected, x) for x in others)


def test_one_local_step_has_no_momentum_so_fedsgd_is_unchanged():
    local = {"lr": 1.0, "steps": 1, "batch_size": None}
    plain, with_it = (
        run(ALGORITHMS["fedsgd"](server_lr=0.1), regression(), local=LocalTraining(**local, momentum=momentum))
        for momentum in (0.0, 0.9)
    )
    assert all(torch.equal(a.x, b.x) for a, b in zip(plain, with_it, strict=True))


def test_without_momentum_nothing_is_kept_and_the_direction_is_untouched():
    x, none = torch.ones(3), LocalTraining()
    assert none.momentum == 0.0
    assert initial_velocity(x, none) == ()
    d, velocity = with_momentum(x, (), none)
    assert d is x
    assert velocity == ()
    assert Progress(x, (), x, x).velocity == ()


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan, "0.9", True, None])
def test_a_momentum_out_of_range_is_refused(momentum: object):
    with pytest.raises(InputError, match=r"local.momentum must be a number in \[0, 1\), got"):
        LocalTraining(momentum=momentum)  # pyright: ignore[reportArgumentType]
