"""The identities of the specification for FedAvg, FedProx, SCAFFOLD, FedDyn and AdaBest, in double precision to 1e-10.

Unless an identity says otherwise: unbalanced clients, cohorts of one to all clients, three local steps on minibatches,
a linear regression and a small neural network. Where the weighting is free, the regression weighs by examples and the
network uniformly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from driftless import ALGORITHMS, AdaptiveClipping, LocalTraining, Round
from driftless.algorithms import (
    AdaBest,
    FedAvg,
    FedAvgM,
    FedDyn,
    FedProx,
    FedSGD,
    Scaffold,
    ScaffoldMomentum,
    ScaffoldSlim,
)
from driftless.algorithms.feddyn import Server as FedDynServer

from .problems import (
    COHORTS,
    EVERYONE,
    FULL_BATCHES,
    MINIBATCHES,
    SIZES,
    assert_close,
    assert_different,
    assert_same,
    on_both_problems,
    regression,
    run,
    with_both_weightings,
)

# FedAvg and what reduces to it


@with_both_weightings
def test_fedprox_without_mu_is_fedavg(problem, weighting):
    bench = problem()
    plain = run(FedAvg(server_lr=0.7), bench, weighting=weighting)
    assert_same(run(FedProx(mu=0.0, server_lr=0.7), bench, weighting=weighting), plain)
    assert_different(run(FedProx(mu=0.5, server_lr=0.7), bench, weighting=weighting), plain)


@dataclass(frozen=True)
class ScaffoldWithoutControls(Scaffold):
    """The clients' controls are set back to zero, and no change of them is sent."""

    def upload(self, y, local, msg, client, r):
        upload, kept = super().upload(y, local, msg, client, r)
        zero = torch.zeros_like(y)
        return upload._replace(delta_c=zero), kept._replace(c=zero)


@with_both_weightings
@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_with_its_controls_held_at_zero_is_fedavg(problem, weighting, option):
    bench, options = problem(), {"weighting": weighting}
    plain = run(FedAvg(server_lr=0.7), bench, **options)
    assert_same(run(ScaffoldWithoutControls(server_lr=0.7, option=option), bench, **options), plain)
    assert_different(run(Scaffold(server_lr=0.7, option=option), bench, **options), plain)


@with_both_weightings
def test_fedavgm_without_momentum_is_fedavg(problem, weighting):
    bench = problem()
    plain = run(FedAvg(server_lr=0.7), bench, weighting=weighting)
    assert_same(run(FedAvgM(server_lr=0.7, momentum=0.0), bench, weighting=weighting), plain)
    assert_different(run(FedAvgM(server_lr=0.7), bench, weighting=weighting), plain)


@on_both_problems
def test_fedsgd_with_one_client_is_gradient_descent(problem):
    bench = problem(sizes=(9,))
    local = LocalTraining(lr=1.0, steps=1, batch_size=None)
    x = bench.x0
    for record in run(FedSGD(server_lr=0.2), bench, cohort=[[0]] * 10, local=local):
        x = x - 0.2 * bench.gradient(0, x)
        assert_close(record.x, x)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_clipping_with_a_huge_norm_changes_nothing(name):
    local = LocalTraining(lr=1.0, steps=1, batch_size=None) if name == "fedsgd" else MINIBATCHES
    algorithm = ALGORITHMS[name](**({"server_lr": 0.2} if name == "fedsgd" else {}))
    bench, options = regression(), {"local": local, "cohort": COHORTS[:3]}
    free = run(algorithm, bench, **options)
    clipped = run(AdaptiveClipping(algorithm, initial=1e9), bench, **options)
    assert_same(clipped, free)
    for one, other in zip(free, clipped, strict=True):
        assert_close(algorithm.inference(one.server), AdaptiveClipping(algorithm).inference(other.server))


# SCAFFOLD


@on_both_problems
def test_the_exact_scaffold_slim_is_scaffold(problem):
    bench = problem()
    full, slim = run(Scaffold(), bench), run(ScaffoldSlim(), bench)
    assert_same(slim, full)
    for one, other in zip(full, slim, strict=True):
        assert_close(one.server.c, other.server.h)
    assert_different(run(ScaffoldSlim(retention="paper"), bench), full)


def test_the_papers_scaffold_slim_is_scaffold_only_for_cohorts_of_one():
    bench, alone = regression(), [[i % 7] for i in (0, 3, 1, 5, 0, 2, 6, 4, 3, 0)]
    assert_same(run(ScaffoldSlim(retention="paper"), bench, cohort=alone), run(Scaffold(), bench, cohort=alone))


@with_both_weightings
def test_scaffold_momentum_with_beta_one_is_scaffold(problem, weighting):
    bench = problem()
    full = run(Scaffold(server_lr=0.7), bench, weighting=weighting)
    momentum = run(ScaffoldMomentum(beta=1.0, server_lr=0.7), bench, weighting=weighting)
    assert_same(momentum, full)
    for one, other in zip(full, momentum, strict=True):
        assert_close(one.server.c, other.server.c)
    assert_different(run(ScaffoldMomentum(beta=0.5, server_lr=0.7), bench, weighting=weighting), full)


# AdaBest, FedDyn


@with_both_weightings
@pytest.mark.parametrize("size_adaptive", [True, False])
def test_adabest_without_mu_and_beta_is_fedavg(problem, weighting, size_adaptive):
    bench = problem()
    plain = run(FedAvg(), bench, weighting=weighting)
    assert_same(run(AdaBest(mu=0.0, beta=0.0, size_adaptive=size_adaptive), bench, weighting=weighting), plain)
    assert_different(run(AdaBest(size_adaptive=size_adaptive), bench, weighting=weighting), plain)


@with_both_weightings
def test_the_aggregates_of_adabest_telescope(problem, weighting):
    """x_bar^{t-1} - x_bar^t = h^{t-1} + gbar^t, with gbar^t = x^{t-1} - x_bar^t."""
    bench = problem()
    x, x_bar, h = bench.x0, bench.x0, torch.zeros_like(bench.x0)
    for record in run(AdaBest(mu=0.3, beta=0.7), bench, weighting=weighting):
        gbar = x - record.aggregate
        assert_close(x_bar - record.aggregate, h + gbar)
        x, x_bar, h = record.x, record.aggregate, record.server.h
    assert float(h.abs().max()) > 1e-3


@with_both_weightings
def test_the_bias_estimate_of_adabest_is_a_geometric_sum_of_pseudo_gradients(problem, weighting):
    """h^t = sum_{s=1..t} beta^(t-s+1) gbar^s."""
    bench, beta = problem(), 0.7
    x, gbars = bench.x0, []
    for record in run(AdaBest(mu=0.3, beta=beta), bench, weighting=weighting):
        gbars.append(x - record.aggregate)
        t = record.round
        assert_close(record.server.h, sum(beta ** (t - s + 1) * gbar for s, gbar in enumerate(gbars, start=1)))
        x = record.x


@on_both_problems
def test_size_adaptive_adabest_is_plain_adabest_when_all_clients_are_equally_large(problem):
    bench = problem(sizes=(8,) * 7)
    adaptive, plain = AdaBest(mu=0.3, beta=0.7), AdaBest(mu=0.3, beta=0.7, size_adaptive=False)
    assert_same(run(adaptive, bench), run(plain, bench))
    assert_different(run(adaptive, problem()), run(plain, problem()))


@on_both_problems
@pytest.mark.parametrize("plain", [Scaffold(option=1), Scaffold(option=2), FedDyn(mu=0.3)], ids=str)
def test_the_size_adaptive_forms_of_scaffold_and_feddyn_are_the_plain_ones_when_all_clients_are_equally_large(
    problem, plain
):
    equal, adaptive = problem(sizes=(8,) * 7), replace(plain, size_adaptive=True)
    assert_same(run(adaptive, equal), run(plain, equal))
    assert_different(run(adaptive, problem()), run(plain, problem()))


@pytest.mark.parametrize("plain", [Scaffold(), FedDyn(mu=0.3)], ids=str)
def test_an_average_by_examples_is_not_the_size_adaptive_form(plain):
    adaptive = run(replace(plain, size_adaptive=True), regression())
    assert_different(run(plain, regression(), weighting="examples"), adaptive)


@pytest.mark.parametrize("algorithm", [Scaffold(option=1), Scaffold(option=2), FedDyn(mu=1.0)], ids=str)
def test_the_size_adaptive_forms_reach_the_minimiser_of_the_mean_over_all_examples(algorithm):
    bench = regression()
    everyone = {"cohort": 1.0, "rounds": 600, "local": FULL_BATCHES, "engine": "block"}
    plain = run(algorithm, bench, **everyone)[-1].aggregate
    adaptive = run(replace(algorithm, size_adaptive=True), bench, **everyone)[-1].aggregate
    sizes = torch.tensor(SIZES, dtype=torch.float64)
    for x, weights in ((plain, torch.ones(len(SIZES), dtype=torch.float64)), (adaptive, sizes)):
        gradient = sum(weight * bench.gradient(i, x) for i, weight in enumerate(weights)) / weights.sum()
        assert_close(gradient, torch.zeros_like(x), 1e-6)
    assert float((plain - adaptive).abs().max()) > 1e-2


def test_adabest_needs_no_knowledge_of_the_number_of_clients():
    """Clients that never take part change nothing, other than for FedDyn."""
    few, many = regression(), regression(sizes=(*SIZES, 20, 30, 40))
    assert_same(run(AdaBest(mu=0.3), few), run(AdaBest(mu=0.3), many))
    assert_different(run(FedDyn(mu=0.3), few), run(FedDyn(mu=0.3), many))


@dataclass(frozen=True)
class FedDynWithoutProximalTerm(FedDyn):
    def direction(self, step, local, msg, client, r):
        return step.g - client.h, local


@with_both_weightings
def test_with_everyone_adabest_with_beta_one_is_feddyn_without_its_proximal_term(problem, weighting):
    bench, options = problem(), {"cohort": EVERYONE, "weighting": weighting}
    bare = run(FedDynWithoutProximalTerm(mu=0.3), bench, **options)
    assert_same(run(AdaBest(mu=0.3, beta=1.0, size_adaptive=False), bench, **options), bare)
    assert_different(run(FedDyn(mu=0.3), bench, **options), bare)


def test_with_everyone_equally_large_size_adaptive_adabest_is_that_feddyn_too():
    bench = regression(sizes=(8,) * 7)
    bare = run(FedDynWithoutProximalTerm(mu=0.3), bench, cohort=EVERYONE)
    assert_same(run(AdaBest(mu=0.3, beta=1.0), bench, cohort=EVERYONE), bare)


def server_round(cohort: int, clients: int) -> Round:
    number = torch.tensor(1.0, dtype=torch.float64)
    return Round(number, number, number, number, cohort, clients, (slice(0, 4),))


def feddyn_server(x, h) -> FedDynServer:
    return FedDyn().init_server(x, None)._replace(h=h)


def feddyn_condition(h, gbar, cohort, clients) -> float:
    """cos(h, gbar) + M/(2N) * norm(gbar)/norm(h): the bias estimate does not grow exactly when this is <= 0."""
    cosine = float(h @ gbar / (h.norm() * gbar.norm()))
    return cosine + cohort / (2 * clients) * float(gbar.norm() / h.norm())


def test_the_bias_estimate_of_feddyn_shrinks_exactly_when_the_pseudo_gradient_opposes_it_enough():
    """norm(h^t) <= norm(h^{t-1}) exactly when cos(h^{t-1}, gbar) <= -(M/2N)*norm(gbar)/norm(h^{t-1})."""
    generator = torch.Generator().manual_seed(0)
    outcomes = []
    for trial in range(2000):
        cohort, clients = 1 + trial % 10, 10 + trial % 7
        x, h, gbar = torch.randn(3, 4, generator=generator, dtype=torch.float64)
        gbar = gbar * 10 ** (trial % 3 - 1) - (trial % 2) * h  # of different lengths, every second time against h
        margin = feddyn_condition(h, gbar, cohort, clients)
        if abs(margin) < 1e-12:
            continue  # too close to call in floating point; the boundary has its own test
        mean = FedAvg().upload(x - gbar, (), FedAvg().broadcast(feddyn_server(x, h)), (), None)[0]
        after = FedDyn().update(feddyn_server(x, h), mean, server_round(cohort, clients)).h
        assert (float(after.norm()) <= float(h.norm())) == (margin <= 0)
        outcomes.append(margin <= 0)
    assert min(outcomes.count(True), outcomes.count(False)) > 400


def test_the_bias_estimate_of_feddyn_keeps_its_norm_on_the_boundary_of_the_condition():
    """h is mirrored: h + M/N*gbar = the mirror image of h, so that 2(M/N)h.gbar + (M/N)^2 norm(gbar)^2 = 0."""
    generator = torch.Generator().manual_seed(1)
    cohort, clients = 3, 10
    for _ in range(100):
        x, h, normal = torch.randn(3, 4, generator=generator, dtype=torch.float64)
        mirrored = h - 2 * (h @ normal) / (normal @ normal) * normal
        gbar = (mirrored - h) * clients / cohort
        assert abs(feddyn_condition(h, gbar, cohort, clients)) < 1e-12
        mean = FedAvg().upload(x - gbar, (), FedAvg().broadcast(feddyn_server(x, h)), (), None)[0]
        after = FedDyn().update(feddyn_server(x, h), mean, server_round(cohort, clients)).h
        assert_close(after, mirrored)
        assert_close(after.norm(), h.norm())


@on_both_problems
def test_the_condition_on_feddyn_decides_every_round_of_a_run(problem):
    bench = problem()
    x, h, checked = bench.x0, None, 0
    for record, cohort in zip(run(FedDyn(mu=0.3), bench), COHORTS, strict=True):
        gbar = x - record.aggregate
        if h is not None:
            margin = feddyn_condition(h, gbar, len(cohort), len(SIZES))
            assert abs(margin) > 1e-9
            assert (float(record.server.h.norm()) <= float(h.norm())) == (margin <= 0)
            checked += 1
        x, h = record.x, record.server.h
    assert checked == len(COHORTS) - 1
