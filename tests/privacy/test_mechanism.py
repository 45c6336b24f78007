"""The mechanism: clipping is joint, noise is in every field and of the right size, what is public stays exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from driftless import ALGORITHMS, AdaptiveClipping, Algorithm, Delta, EngineSettings, LocalTraining, Plan, simulate
from driftless.algorithm import Facts, Model, Round
from driftless.algorithms import MFL, AdaBest, FedAvg, FedCM, Mime, MimeLite, Scaffold
from driftless.data.cohorts import Poisson
from driftless.engine.tree import named_leaves
from driftless.errors import InputError
from driftless.privacy import DifferentialPrivacy, Sampling, epsilon
from driftless.privacy.mechanism import Message, Server, Upload
from driftless.random import stream
from laws.entries import COHORTS, linear, local_training, regression

PLAN = Plan(10, 100, 10, "poisson", "uniform", 2, None, "mean", 3, (slice(0, 4), slice(4, 6)))
X = torch.linspace(-1, 1, 6, dtype=torch.float64)
SUPPORTED = [name for name, cls in ALGORITHMS.items() if cls.full_gradient != "before"]


def facts(**changed: Any) -> Round:
    one = torch.ones((), dtype=torch.float64)
    return Round(one, 0.1 * one, 2 * one, 5 * one, 10, 100, PLAN.layers)._replace(**changed)


def private(inner: Algorithm, **options: Any) -> DifferentialPrivacy:
    return DifferentialPrivacy(inner, **{"noise_multiplier": 0.0, "clip": 1e9, **options})


def run(algorithm: Algorithm, **options: Any):
    given = {"rounds": 4, "cohort": COHORTS, "evaluate_every": 0, "dtype": torch.float64, "engine": "single"}
    local = local_training(algorithm, lr=0.1, steps=2, batch_size=3)
    return simulate(algorithm, regression(), linear(), local=local, **{**given, **options})


@pytest.mark.parametrize("name", SUPPORTED)
def test_without_noise_and_clipping_every_algorithm_is_what_it_was_to_the_bit(name):
    plain = ALGORITHMS[name]()
    if isinstance(plain, AdaBest):
        plain = replace(plain, size_adaptive=False)  # every client counts the same
    expected, found = run(plain, weighting="uniform"), run(private(ALGORITHMS[name]()))
    assert torch.equal(found.x, expected.x)
    assert dict(named_leaves(found.state.server.inner)).keys() == dict(named_leaves(expected.state.server)).keys()


def test_adabest_counts_every_client_as_one_example():
    server = run(private(AdaBest())).state.server.inner
    assert server.seen.mean_examples == 1


@pytest.mark.parametrize("inner", [FedAvg(), Scaffold(), MimeLite(), MFL(), AdaBest()], ids=lambda a: a.name)
def test_all_vectors_of_an_upload_are_clipped_jointly(inner):
    dp = private(inner, clip=0.25).for_run(PLAN)
    x = X.clone()
    server = dp.init_server(x, Facts(PLAN.layers, 100))
    msg, client, r = dp.broadcast(server), dp.init_client(x), facts(gradient=7 * X)
    plain, _ = inner.upload(3 * x, inner.init_local(msg.inner, client, r), msg.inner, client, r)
    sent, _ = dp.upload(3 * x, dp.init_local(msg, client, r), msg, client, r)
    fields = [name for name, leaf in named_leaves(plain) if name not in inner.public and leaf.numel()]
    assert dp.private_fields() == fields
    before, after = dict(named_leaves(plain)), dict(named_leaves(sent.inner))
    norm = np.sqrt(sum(float(before[name].square().sum()) for name in fields))
    assert norm > 1
    for name in fields:
        np.testing.assert_allclose(after[name].numpy(), before[name].numpy() * 0.25 / norm, rtol=1e-12)
    assert all(not after[name].any() for name in inner.public)


def test_an_upload_that_is_not_finite_is_sent_as_zeros():
    dp = private(FedAvg(), clip=1.0).for_run(PLAN)
    msg = dp.broadcast(dp.init_server(X, Facts(PLAN.layers, 100)))
    for bad in (torch.nan, torch.inf, 1e200):
        sent, _ = dp.upload(X + bad, (), msg, (), facts())
        assert torch.equal(sent.delta, torch.zeros_like(X)) or bad == 1e200
        assert float(sent.delta.norm()) <= 1 + 1e-12


class Many(NamedTuple):
    delta: torch.Tensor
    other: torch.Tensor
    number: torch.Tensor


class State(NamedTuple):
    x: torch.Tensor
    mean: Many


@dataclass(frozen=True)
class Keeps(Algorithm):
    """A server that keeps the mean upload as it gets it."""

    def init_server(self, x, facts):
        return State(x, Many(x, x, x.new_zeros(())))

    def broadcast(self, server):
        return Model(server.x)

    def upload(self, y, local, msg, client, r):
        return Many(y - msg.x, 2 * (y - msg.x), (y - msg.x).sum()), client

    def update(self, server, mean, r):
        return State(server.x, mean)


def test_every_field_of_the_mean_gets_noise_of_the_clipping_norm_over_the_planned_cohort():
    """Also numbers; the standard deviation is z S/m, and fields and rounds are independent of each other."""
    size, z, clip = 20_000, 1.7, 0.3
    plan = PLAN._replace(layers=(slice(0, size),))
    dp = DifferentialPrivacy(Keeps(), z, clip).for_run(plan)
    x = torch.zeros(size, dtype=torch.float64)
    server = dp.init_server(x, Facts(plan.layers, 100))
    mean = Upload(Many(x + 1, x + 2, x[0] + 3), ())
    one, two = (dp.update(server, mean, facts(t=torch.tensor(float(t)), cohort=8)).inner.mean for t in (1, 2))
    std = z * clip / 10
    noise = [(one.delta - 0.8) / std, (one.other - 1.6) / std, (two.delta - 0.8) / std, (two.other - 1.6) / std]
    for each in noise:
        assert kstest(each.numpy(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(torch.stack(noise).numpy())[np.triu_indices(4, 1)]).max() < 4.5 / np.sqrt(size)
    numbers = [
        float(dp.update(server, mean, facts(t=torch.tensor(float(t)), cohort=8)).inner.mean.number) for t in range(150)
    ]
    assert kstest((np.array(numbers) - 2.4) / std, "norm").pvalue > 1e-3


def test_secure_noise_is_of_the_same_size_and_never_the_same_twice():
    plan = PLAN._replace(layers=(slice(0, 20_000),))
    dp = DifferentialPrivacy(FedAvg(), 2.0, 0.5, noise_source="secure").for_run(plan)
    x = torch.zeros(20_000)
    server = dp.init_server(x, Facts(plan.layers, 100))
    one, two = (dp.update(server, Upload(Delta(x), ()), facts()).x for _ in range(2))
    assert kstest((one / 0.1).numpy(), "norm").pvalue > 1e-6
    assert not torch.equal(one, two)


def reference(rounds: int, q: float, seed: int, z: float, clip: float, quantile: float | None, server_lr: float):
    """DP-SCAFFOLD in NumPy: full-batch steps of linear regression, every line from the module's docstring."""
    data = [(inputs.numpy(), targets.numpy()) for inputs, targets in clients_of(regression())]
    N, P, K, lr = len(data), 4, 2, 0.1
    m = q * N
    s_b = max(m / 20, z)
    z_u = z if quantile is None else (z**-2 - (2 * s_b) ** -2) ** -0.5
    weight, bias = (p.detach().numpy() for p in linear().parameters())
    x, c, own = np.concatenate([weight.ravel(), bias]), np.zeros(P), np.zeros((N, P))
    for t in range(1, rounds + 1):
        total, bits = [np.zeros(P), np.zeros(P)], 0.0
        for i in Poisson(q).clients(t, N, seed):
            inputs, targets = data[i]
            y = x.copy()
            for _ in range(K):
                residual = inputs @ y[:3] + y[3] - targets
                gradient = np.append(inputs.T @ residual, residual.sum()) / len(targets)
                y = y - lr * (gradient - own[i] + c)
            new = own[i] - c + (x - y) / (K * lr)
            u = [y - x, new - own[i]]
            own[i] = new
            norm = np.sqrt(np.square(u[0]).sum() + np.square(u[1]).sum())
            total = [whole + each * min(1, clip / norm) for whole, each in zip(total, u, strict=True)]
            bits += (norm <= clip) - 0.5
        noise = [stream(seed, "privacy", t, i).standard_normal(P) for i in range(2)]
        delta, delta_c = ((whole + z_u * clip * each) / m for whole, each in zip(total, noise, strict=True))
        x, c = x + server_lr * delta, c + m / N * delta_c
        if quantile is not None:
            share = (bits + s_b * stream(seed, "privacy", t, 2).standard_normal()) / m + 0.5
            clip = clip * np.exp(-0.2 * (share - quantile))
    return x, c, clip


def clients_of(federation):
    parts = federation.sizes.tolist()
    return zip(federation.inputs.split(parts), federation.targets.split(parts), strict=True)


@pytest.mark.parametrize("quantile", [None, 0.6])
@pytest.mark.parametrize("engine", ["single", "block"])
def test_a_run_is_that_of_an_independent_reference(quantile, engine):
    """Poisson cohorts of 7 clients with probability 0.3: some rounds are empty, and noise is all they bring."""
    rounds, q, z, clip, seed = 12, 0.3, 0.8, 0.4, 4
    sizes = [len(Poisson(q).clients(t, 7, seed)) for t in range(1, rounds + 1)]
    assert 0 in sizes
    assert max(sizes) > 2
    dp = DifferentialPrivacy(Scaffold(server_lr=0.7), z, clip, clip_quantile=quantile)
    result = simulate(
        dp, regression(), linear(), rounds=rounds, cohort=Poisson(q), seed=seed, dtype=torch.float64, engine=engine,
        local=LocalTraining(lr=0.1, steps=2, batch_size=None), evaluate_every=0,
    )  # fmt: skip
    x, c, norm = reference(rounds, q, seed, z, clip, quantile, 0.7)
    np.testing.assert_allclose(result.x.numpy(), x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.state.server.inner.c.numpy(), c, rtol=0, atol=1e-12)
    assert float(result.state.server.clip) == pytest.approx(norm, rel=1e-12)
    assert result.history["cohort"] == sizes
    assert result.history["epsilon"] == sorted(result.history["epsilon"])
    assert len(result.history["epsilon"]) == rounds


def test_the_number_of_clients_that_came_changes_nothing_but_the_sum():
    """Removing a client that uploads zeros changes no bit of the release: neither r.cohort nor the noise."""
    for inner in (FedAvg(), Scaffold(), FedCM(), AdaBest()):
        dp = DifferentialPrivacy(inner, 1.0, 0.5).for_run(PLAN)
        server = dp.init_server(X, Facts(PLAN.layers, 100))
        upload, _ = dp.upload(X + 0.5, dp.init_local(dp.broadcast(server), dp.init_client(X), facts()),
                              dp.broadcast(server), dp.init_client(X), facts())  # fmt: skip
        half = upload._replace(inner=type(upload.inner)(*(0.5 * leaf for leaf in upload.inner)))
        one = dp.update(server, upload, facts(cohort=1))
        two = dp.update(server, half, facts(cohort=2, steps=torch.tensor(9.0), examples=torch.tensor(1e6)))
        for (name, a), (_, b) in zip(named_leaves(one), named_leaves(two), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-14, atol=0, equal_nan=True, msg=name)


def test_an_adaptive_norm_follows_the_quantile_and_costs_no_epsilon():
    local = LocalTraining(lr=0.1, steps=2, batch_size=None)
    options: dict[str, Any] = {"rounds": 30, "cohort": 1.0, "engine": "single", "local": local}
    fixed = simulate(DifferentialPrivacy(FedAvg(), 0.5), regression(), linear(), evaluate_every=0, **options)
    found = {}
    for initial in (0.01, 10.0):
        dp = DifferentialPrivacy(FedAvg(), 0.5, initial, clip_quantile=0.5)
        result = simulate(dp, regression(), linear(), evaluate_every=0, **options)
        assert result.history["epsilon"] == fixed.history["epsilon"]
        found[initial] = result.history["clip_level"]
    assert found[0.01][-1] > 0.02
    assert found[10.0][-1] < 5


def test_without_noise_adaptive_clipping_is_that_of_the_wrapper_without_privacy():
    dp = private(FedAvg(), clip=0.3, clip_quantile=0.8)
    found, expected = run(dp), run(AdaptiveClipping(FedAvg(), initial=0.3), weighting="uniform")
    torch.testing.assert_close(found.x, expected.x, rtol=1e-12, atol=0)
    assert found.history["clip_level"] == pytest.approx(expected.history["clip_level"], rel=1e-12)
    assert found.history["clipped"] == pytest.approx(expected.history["clipped"], abs=1e-12)


def test_the_noise_is_split_so_that_both_releases_cost_as_much_as_one():
    """Andrew et al.: z^-2 = z_u^-2 + (2 s_b)^-2, with s_b = m/20."""
    dp = DifferentialPrivacy(FedAvg(), 1.0, clip_quantile=0.5).for_run(PLAN._replace(clients=1000, cohort=100))
    assert dp.count_noise == 5
    assert dp.split_noise == pytest.approx((1 - 1 / 100) ** -0.5)
    few = DifferentialPrivacy(FedAvg(), 1.0, clip_quantile=0.5).for_run(PLAN)
    assert few.count_noise == 1.0  # m/20 would be too little
    with pytest.raises(InputError, match=r"clip_noise=0.4 .* set it to more than 0.5"):
        DifferentialPrivacy(FedAvg(), 1.0, clip_quantile=0.5, clip_noise=0.4).for_run(PLAN)


@pytest.mark.parametrize("inner", [Scaffold(), AdaBest()], ids=lambda a: a.name)
def test_one_and_two_processes_give_the_same_bits_also_with_empty_cohorts(inner):
    dp = DifferentialPrivacy(inner, 0.3, 0.2, clip_quantile=0.5)
    engines = [EngineSettings("single", workers=workers) for workers in (1, 2)]
    one, two = (run(dp, engine=engine, cohort=Poisson(0.25), rounds=8, seed=1) for engine in engines)
    assert 0 in one.history["cohort"]
    assert torch.equal(one.x, two.x)
    assert sorted(one.state.clients.clients) == sorted(two.state.clients.clients)
    assert torch.isfinite(one.x).all()


def test_epochs_are_refused_where_the_server_would_learn_the_mean_number_of_steps():
    epochs = PLAN._replace(steps=None)
    private(FedAvg()).for_run(epochs)
    private(Scaffold()).for_run(epochs)  # only its clients use K
    for inner in (FedCM(), ALGORITHMS["ghbm-theory"](), ALGORITHMS["fedgbo"]()):
        with pytest.raises(InputError, match=r"set the same number for all, such as local\.steps=10"):
            private(inner).for_run(epochs)


@dataclass(frozen=True)
class Whole(FedAvg):
    def upload(self, y, local, msg, client, r):
        return Many(y - msg.x, (y > 0).long(), y.sum()), client


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DifferentialPrivacy(FedAvg()), "needs noise_multiplier, such as 1.0, or target_epsilon"),
        (lambda: DifferentialPrivacy(Mime(), 1.0), "cannot protect Mime: its clients send full gradients"),
        (lambda: DifferentialPrivacy("fedavg", 1.0), "inner of DifferentialPrivacy must be an algorithm"),
        (lambda: DifferentialPrivacy(FedAvg(), -1.0), "noise_multiplier of DifferentialPrivacy must be a number in"),
        (lambda: DifferentialPrivacy(FedAvg(), 1.0, 0.0), "clip of DifferentialPrivacy must be"),
        (lambda: DifferentialPrivacy(FedAvg(), 1.0, delta=1.0), "delta of DifferentialPrivacy must be"),
        (lambda: DifferentialPrivacy(FedAvg(), 1.0, accountant="gdp"), "accountant of DifferentialPrivacy must be one"),
        (
            lambda: DifferentialPrivacy(FedAvg(), 1.0, noise_source="none"),
            "noise_source of DifferentialPrivacy must be one of",
        ),
        (
            lambda: AdaptiveClipping(DifferentialPrivacy(FedAvg(), 1.0)),
            r"DifferentialPrivacy\(AdaptiveClipping\(\.\.\.\)\)",
        ),
        (lambda: private(FedAvg()).for_run(PLAN._replace(weighting="examples")), "set weighting=uniform"),
        (lambda: private(FedAvg()).for_run(PLAN._replace(inference="clients")), "to which no noise was added"),
        (lambda: private(FedAvg()).for_run(PLAN._replace(clients=1)), "delta of DifferentialPrivacy"),
        (lambda: private(Whole()).for_run(PLAN), "uploads 'other' as torch.int64"),
        (
            lambda: DifferentialPrivacy(FedAvg(), 0.5, target_epsilon=1.0).for_run(PLAN),
            "more than target_epsilon=1; leave noise_multiplier out",
        ),
        (
            lambda: DifferentialPrivacy(FedAvg(), 1.0, accountant="pld").for_run(PLAN._replace(sampling="fixed")),
            "set accountant=rdp",
        ),
        (lambda: private(FedAvg()).upload(X, (), Message(Model(X), X[0]), (), facts()), "call for_run"),
    ],
)
def test_what_cannot_be_protected_is_an_error(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_guarantee_is_said_before_the_run():
    for sampling, relation in [("poisson", "added or removed"), ("fixed", "replaced"), ("", "no amplification")]:
        dp = DifferentialPrivacy(MimeLite(), 2.0, 0.5).for_run(PLAN._replace(sampling=sampling))
        (said,) = dp.notices()
        assert f"epsilon {dp.epsilon(10):.4g} at delta 0.0063 after 10 rounds" in said
        assert relation in said
        assert "clip 0.5 of delta and gradient" in said
    assert "none, because there is no noise" in private(FedAvg()).for_run(PLAN).notices()[0]


def test_with_states_of_clients_only_poisson_cohorts_amplify():
    """A state tells in which rounds its client took part, and in cohorts of a fixed size that is about others, too."""
    for inner, kinds in ((FedAvg(), ("poisson", "fixed", "")), (Scaffold(), ("poisson", "", ""))):
        plans = [PLAN._replace(sampling=sampling) for sampling in ("poisson", "fixed", "")]
        assert tuple(DifferentialPrivacy(inner, 2.0).for_run(plan).sampling.kind for plan in plans) == kinds
    every = [DifferentialPrivacy(Scaffold(), 2.0).for_run(PLAN._replace(sampling=kind)) for kind in ("fixed", "")]
    assert every[0].epsilon(10) == every[1].epsilon(10) == epsilon(2.0, 100**-1.1, 10, Sampling("", 100, 10))


def test_the_state_of_the_server_has_the_fields_that_the_engine_needs():
    dp = private(FedAvg()).for_run(PLAN)
    server = dp.init_server(X, Facts(PLAN.layers, 100))
    assert isinstance(server, Server)
    assert torch.equal(server.x, X)
    assert torch.equal(dp.inference(server), X)
