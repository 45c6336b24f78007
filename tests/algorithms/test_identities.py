"""The table of identities is about what exists; and the identities that no other file proves."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path

import pytest

from driftless import ALGORITHMS, LocalTraining
from driftless.algorithms import (
    MFL,
    FedADC,
    FedAvg,
    FedAvgM,
    FedCM,
    FedGBO,
    FedHBM,
    FedSGD,
    LocalGHBM,
    Mime,
    MimeLite,
    MimeLiteMom,
    MimeMom,
    ServerGHBM,
)
from driftless.algorithms.identities import IDENTITIES, Identity

from .problems import (
    COHORTS,
    FULL_BATCHES,
    MINIBATCHES,
    assert_different,
    assert_same,
    on_both_problems,
    regression,
    run,
    with_both_weightings,
)

ROOT = Path(__file__).parents[2]
for_every_identity = pytest.mark.parametrize("identity", IDENTITIES, ids=lambda it: f"{it.special}={it.equals}")


@for_every_identity
def test_the_test_that_proves_an_identity_exists(identity: Identity):
    file, _, name = identity.test.partition("::")
    defined = [node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    assert name.startswith("test_")
    assert name in defined


@for_every_identity
def test_both_sides_of_an_identity_name_algorithms_and_hyper_parameters_that_exist(identity: Identity):
    for side, name in zip((identity.special, identity.equals), identity.names, strict=True):
        call = ast.parse(side, mode="eval").body
        assert isinstance(call, ast.Call)
        assert ast.unparse(call.func) == ALGORITHMS[name].__name__
        assert not call.args
        assert {keyword.arg for keyword in call.keywords} <= {field.name for field in fields(ALGORITHMS[name])}


def test_values_that_identities_give_to_hyper_parameters_are_accepted():
    checked = 0
    for identity in IDENTITIES:
        for side, name in zip((identity.special, identity.equals), identity.names, strict=True):
            for keyword in ast.parse(side, mode="eval").body.keywords:
                if isinstance(keyword.value, ast.Constant):
                    ALGORITHMS[name](**{keyword.arg: keyword.value.value})
                    checked += 1
    assert checked > 10


def test_no_identity_stands_there_twice_and_no_algorithm_is_a_case_of_itself():
    sides = [frozenset((identity.special, identity.equals)) for identity in IDENTITIES]
    assert len(set(sides)) == len(sides)
    assert all(len(set(identity.names)) == 2 for identity in IDENTITIES)


def test_all_algorithms_but_those_that_rescale_the_pseudo_gradient_are_connected_with_fedavg():
    connected = {"fedavg"}
    while True:
        more = {name for identity in IDENTITIES if connected & set(identity.names) for name in identity.names}
        if more <= connected:
            break
        connected |= more
    alone = {"fedadagrad", "fedadam", "fedyogi", "fedlars", "fedlamb", "normalized-fedavg"}
    assert set(ALGORITHMS) - connected == alone


# Identities


def test_fedsgd_is_fedavg_with_one_full_batch_step_of_length_one():
    options = {"local": LocalTraining(lr=1.0, steps=1, batch_size=None)}
    sgd = run(FedSGD(server_lr=0.2), regression(), **options)
    assert_same(sgd, run(FedAvg(server_lr=0.2), regression(), **options))
    assert_different(sgd, run(FedAvg(server_lr=0.2), regression()))


@with_both_weightings
@pytest.mark.parametrize(
    ("without", "with_it"),
    [
        (FedCM(alpha=1.0, server_lr=0.7), FedCM(alpha=0.5, server_lr=0.7)),
        (MimeLiteMom(beta=0.0, server_lr=0.7), MimeLiteMom(beta=0.5, server_lr=0.7)),
        (LocalGHBM(beta=0.0, server_lr=0.7), LocalGHBM(beta=0.5, server_lr=0.7)),
        (FedHBM(beta=0.0, server_lr=0.7), FedHBM(beta=0.5, server_lr=0.7)),
        (ServerGHBM(beta=0.0, tau=2, server_lr=0.7), ServerGHBM(beta=0.5, tau=2, server_lr=0.7)),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_without_its_momentum_an_algorithm_is_fedavg(problem, weighting, without, with_it):
    bench, options = problem(), {"weighting": weighting, "cohort": COHORTS[:5]}
    plain = run(FedAvg(server_lr=0.7), bench, **options)
    assert_same(run(without, bench, **options), plain)
    assert_different(run(with_it, bench, **options), plain)


@with_both_weightings
@pytest.mark.parametrize("optimizer", ["rmsprop", "sgdm", "adam"])
def test_mime_is_mimelite_at_one_full_batch_step(problem, weighting, optimizer):
    bench, hyper = problem(), {"optimizer": optimizer, "beta": 0.8, "beta2": 0.9}
    once = {"local": replace(FULL_BATCHES, steps=1), "weighting": weighting}
    assert_same(run(Mime(**hyper), bench, **once), run(MimeLite(**hyper), bench, **once))
    more = {"cohort": COHORTS[:2], "weighting": weighting}
    assert_different(run(Mime(**hyper), bench, **more), run(MimeLite(**hyper), bench, **more))


@with_both_weightings
def test_mfl_with_momentum_is_fedgbo_at_one_local_step(problem, weighting):
    bench = problem()
    once = {"local": replace(MINIBATCHES, steps=1), "weighting": weighting}
    assert_same(run(MFL(beta=0.7), bench, **once), run(FedGBO(beta=0.7), bench, **once))
    assert_different(run(MFL(beta=0.7), bench), run(FedGBO(beta=0.7), bench))


@on_both_problems
@pytest.mark.parametrize(("mime", "form"), [(MimeLite, MimeLiteMom), (Mime, MimeMom)])
def test_mime_with_momentum_is_its_form_of_the_ghbm_paper(problem, mime, form):
    bench = problem()
    assert_same(run(mime(optimizer="sgdm", beta=0.7), bench), run(form(beta=0.7, form="ema"), bench))


@with_both_weightings
def test_fedadc_without_local_momentum_is_fedavgm(problem, weighting):
    bench = problem()
    adc = run(FedADC(beta_local=0.0, beta_global=0.6, server_lr=0.7), bench, weighting=weighting)
    assert_same(adc, run(FedAvgM(momentum=0.6, server_lr=0.7), bench, weighting=weighting))
