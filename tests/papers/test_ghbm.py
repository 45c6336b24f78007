"""The GHBM paper: its numbers, its settings, its studies and how claims are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from driftless.papers.ghbm import GHBM, corollary_4_5, lemma_b_3
from driftless.papers.ghbm.figure_1 import reused_gradients
from driftless.papers.ghbm.figure_5 import still_rising
from driftless.papers.ghbm.figure_8 import SERVER_SIDE, depends_on_network
from driftless.papers.ghbm.figure_9 import cyclic_quadratics
from driftless.papers.ghbm.hyper_parameters import hyper_parameters
from driftless.papers.ghbm.measures import last_rounds
from driftless.papers.ghbm.quadratics import client_gradients
from driftless.papers.ghbm.settings import IID, NON_IID
from driftless.papers.ghbm.table_3 import LARGE_ROUNDS, SPLITS
from driftless.papers.ghbm.table_4 import COLUMNS, cost_shares, saving
from driftless.report.curves import Run
from driftless.report.metrics import Axis
from driftless.reproduce.experiment import Cell, Check, Experiment, Number, Setup
from driftless.reproduce.outcome import Measure, Missing, Outcome, Result
from driftless.reproduce.runner import plan

AT = {one.name: one for one in GHBM.experiments}


def published(experiment: str, **at: str) -> Number | None:
    found = [cell for cell in AT[experiment].paper.cells if at.items() <= cell.at.items()]
    assert len(found) == 1
    return found[0].published


@pytest.mark.parametrize(
    ("experiment", "at", "number"),
    [
        ("table-2", {"data": "CIFAR-100, ResNet-20", "labels": NON_IID, "algorithm": "FedHBM"}, (42.5, 0.8)),
        ("table-2", {"data": "CIFAR-100, CNN", "labels": NON_IID, "algorithm": "FedDyn"}, None),
        ("table-2", {"data": "CIFAR-100, CNN", "labels": NON_IID, "algorithm": "MimeMom"}, (48.2, 0.7)),
        ("table-2", {"data": "Shakespeare", "labels": IID, "algorithm": "SCAFFOLD-M"}, (51.0, 0.1)),
        ("table-3", {"setting": "iNaturalist, ViT-B/16, 0.1 %", "algorithm": "GHBM"}, (68.8, 0.3)),
        ("table-3", {"setting": "StackOverflow, LSTM, 0.12 %", "algorithm": "GHBM"}, (27.0, 0.1)),
        ("table-3", {"setting": "GLDv2, MobileNetV2, 0.79 %", "algorithm": "MimeMom"}, None),
        ("table-8", {"data": "CIFAR-10, CNN", "labels": NON_IID, "algorithm": "AdaBest"}, (66.1, 0.3)),
        ("table-8", {"data": "CIFAR-10, ResNet-20", "labels": IID, "algorithm": "LocalGHBM"}, (88.8, 0.1)),
        ("table-9", {"participation": "cyclic", "algorithm": "GHBM"}, (39.0, 0.7)),
    ],
)
def test_published_numbers_are_those_of_the_tables(experiment, at, number):
    assert published(experiment, **at) == (None if number is None else Number(*number))


def test_the_average_savings_of_table_4_are_those_that_the_text_gives():
    columns = range(len(COLUMNS))
    assert np.mean([saving("FedHBM", c, "gigabytes") for c in columns]) == pytest.approx(67.5, abs=0.3)
    assert np.mean([saving("FedHBM", c, "minutes") for c in columns]) == pytest.approx(62.5, abs=0.3)
    assert saving("GHBM", 0, "gigabytes") == pytest.approx(79.3, abs=0.1)


@pytest.mark.parametrize(("data", "batch"), [("CIFAR-10", 64), ("Shakespeare", 100), ("StackOverflow", 16)])
def test_the_local_steps_of_table_6_are_one_epoch(data, batch):
    assert SPLITS[data]["steps"] == math.ceil(SPLITS[data]["examples"] / batch)


def test_the_rounds_of_the_paper_scale_give_the_participations_of_table_6():
    assert 2 * SPLITS["CIFAR-10"]["participations"][0] == 20_000 * 10 / 100
    gldv2, inaturalist = SPLITS["GLDv2"], SPLITS["iNaturalist"]
    assert round(LARGE_ROUNDS * 10 / gldv2["clients"]) == gldv2["participations"][0]
    seen = [round(LARGE_ROUNDS * cohort / inaturalist["clients"]) for cohort in inaturalist["cohorts"]]
    assert seen == inaturalist["participations"]


def test_what_is_bold_in_table_7_is_taken_and_what_is_not_known_is_searched():
    assert hyper_parameters("FedAvgM", "CNN") == (
        {"algorithm.server_lr": 0.1, "local.lr": 0.01, "algorithm.momentum": 0.9},
        {},
    )
    assert hyper_parameters("GHBM", "CNN") == (
        {"algorithm.beta": 0.9, "algorithm.tau": 10},
        {"algorithm.server_lr": (1.0, 0.5, 0.1), "local.lr": (1.0, 0.5, 0.1)},
    )
    assert hyper_parameters("FedProx", "StackOverflow")[0]["algorithm.mu"] == 0.01


def test_figures_at_small_scale_are_views_of_the_same_runs(tmp_path: Path):
    def folders(name: str) -> set[Path]:
        small = AT[name].small
        assert small is not None
        return {one.folder for one in plan(small, tmp_path)}

    assert folders("figure-3") == folders("figure-6")
    assert folders("figure-5") <= folders("table-8")
    assert folders("table-4") <= folders("table-8") | folders("figure-2")


# ---- Studies --------------------------------------------------------------------------------------------------------


def test_the_bound_of_the_corollary_fails_from_seven_clients_on_when_one_differs():
    assert corollary_4_5.one_client_ratio(6, 3) < 1 < corollary_4_5.one_client_ratio(7, 3)


def test_gradients_of_one_client_against_all_cancel_and_have_the_stated_dissimilarity():
    gradients = client_gradients(corollary_4_5.one_against_all(5, 2), torch.zeros(2, dtype=torch.float64))
    assert torch.allclose(gradients[0], torch.full((2,), -4.0, dtype=torch.float64))
    mean, size = corollary_4_5.mean_and_size(gradients)
    assert float(mean.abs().max()) < 1e-12
    assert size == pytest.approx(4 * 2)  # (N - 1) |v|^2 with v = (1, 1)


def test_the_error_is_zero_when_the_cohorts_of_a_period_are_all_clients():
    found = corollary_4_5.heterogeneity_bounds(6, 2, 3, rounds=3, seeds=1, draws=3, outlier_clients=(5,))
    assert found["cyclic"]["3"] < 1e-25 < found["cyclic"]["1"]


def test_both_forms_of_the_momentum_give_the_same_models_and_a_wrong_weight_does_not(monkeypatch):
    assert lemma_b_3.momentum_forms((1, 3), rounds=8, beta=0.9, clients=4, cohort=2)["3"] < 1e-12
    right = lemma_b_3.distance_to_sums
    monkeypatch.setattr(lemma_b_3, "distance_to_sums", lambda records, tau, beta: right(records, tau, 0.8))
    assert lemma_b_3.momentum_forms((3,), rounds=8, beta=0.9, clients=4, cohort=2)["3"] > 1e-6


def test_with_all_clients_and_full_batches_nothing_is_off_in_a_single_round():
    options: dict[str, Any] = {
        **AT["figure-1"].smoke_options,
        "taus": (1, 2),
        "rounds": 4,
        "cohort": 20,
        "batch_size": 1000,
    }
    found = reused_gradients(**options)
    assert found["rounds"] == [2, 4]
    assert max(found[NON_IID]["1"]) < 1e-5 < min(found[NON_IID]["2"])


def test_the_gap_to_the_optimum_falls_and_is_never_negative():
    found = cyclic_quadratics(clients=4, cohort=2, steps=(1,), rounds=12, lr=0.5, seeds=1)["1"]
    assert all(min(values) > -1e-12 and values[-1] < values[0] for values in found.values())
    assert len(found) == 4


# ---- Judging --------------------------------------------------------------------------------------------------------


def judged(experiment: str, claim: str, scores: Mapping[str, float], **at: str) -> list[bool]:
    """The checks of a claim when algorithms have these scores."""
    known = Measure("score", lambda result: result.cell.published or Number(math.nan))
    one: Experiment = replace(AT[experiment], measure=known)
    cells = [Cell({**at, "algorithm": name}, {}, Number(score)) for name, score in scores.items()]
    outcome = Outcome(one, Setup(), tuple(Result(cell, ()) for cell in cells))
    checks = next(found for found in one.claims if found.name == claim).checks(outcome)
    return [check.holds for check in checks]


SETTING = {"data": "any", "labels": NON_IID}


def test_the_best_tau_may_be_beaten_by_a_point_but_not_by_two():
    scores = {"GHBM τ=1": 60.0, "GHBM τ=10": 80.0, "GHBM τ=20": 80.9}
    assert judged("figure-2", "optimum", scores, **SETTING) == [True]
    assert judged("figure-2", "optimum", {**scores, "GHBM τ=20": 82.0}, **SETTING) == [False]


def test_a_large_tau_may_lose_a_quarter_of_the_gain():
    scores = {"GHBM τ=1": 60.0, "GHBM τ=10": 80.0, "GHBM τ=20": 76.0, "GHBM τ=40": 74.0}
    assert judged("figure-2", "large-tau", scores, **SETTING) == [True, False]


def test_classical_momentum_that_gains_as_much_contradicts_the_claim():
    scores = {"FedAvg": 70.0, "GHBM τ=1": 71.0, "GHBM τ=10": 80.0}
    assert judged("figure-2", "tau-1", scores, **SETTING) == [True, True]
    assert judged("figure-2", "tau-1", {**scores, "GHBM τ=1": 79.0}, **SETTING) == [True, False]


def test_the_two_methods_are_compared_with_all_but_each_other_and_full_participation():
    scores = {"FedAvg": 60.0, "FedCM, all clients": 99.0, "LocalGHBM": 70.0, "FedHBM": 72.0, "FedDyn": math.nan}
    assert judged("table-2", "best-non-iid", scores, **SETTING) == [True, True]
    assert judged("table-2", "best-non-iid", {**scores, "MIME": 71.0}, **SETTING) == [False, True]


def test_a_claim_about_methods_that_were_not_run_is_not_judged():
    with pytest.raises(Missing):
        judged("table-2", "upper-bound", {"FedAvg": 60.0}, **SETTING)


def test_momentum_on_the_server_must_be_close_with_one_model_and_not_with_another():
    known = Measure("score", lambda result: result.cell.published or Number(math.nan))
    one = replace(AT["figure-8"], measure=known)

    def verdict(server: tuple[float, float]) -> list[Check]:
        cells = [
            Cell({"data": data, "labels": NON_IID, "algorithm": name}, {}, Number(score))
            for data, other in zip(("A", "B"), server, strict=True)
            for name, score in (("GHBM", 80.0), (SERVER_SIDE, other))
        ]
        return list(depends_on_network(Outcome(one, Setup(), tuple(Result(cell, ()) for cell in cells))))

    assert verdict((79.0, 70.0))[0].holds
    assert not verdict((79.0, 79.0))[0].holds
    assert not verdict((70.0, 70.0))[0].holds


class FakeRun:
    """A run with an accuracy a round and 2 MB a round."""

    status = "finished"

    def __init__(self, *accuracy: float) -> None:
        self._accuracy = np.array(accuracy)
        self.rounds = np.arange(1, len(accuracy) + 1)
        self.played = len(accuracy)

    def column(self, key: str) -> Any:
        return self._accuracy

    def total(self, axis: Axis) -> Any:
        return self.rounds * (2.0 if axis.sums else 1.0)


def result(name: str, *accuracy: float) -> Result:
    cell = Cell({"data": "any", "labels": NON_IID, "algorithm": name}, {})
    return Result(cell, (cast(Run, FakeRun(*accuracy)),))


def test_quality_is_the_mean_of_the_last_quarter_of_a_short_run():
    assert last_rounds(result("any", *[0.1] * 6, 0.4, 0.6)).mean == pytest.approx(0.5)
    assert last_rounds(result("any", *[0.0] * 900, *[0.3] * 100)).mean == pytest.approx(0.3)


def test_the_cost_of_fedavg_is_its_budget_and_that_of_others_ends_where_its_quality_is_reached():
    runs = (result("FedAvg", 0.9, 0.1, 0.2, 0.5), result("FedHBM", 0.1, 0.5, 0.6, 0.6), result("MimeMom", 0, 0, 0, 0))
    ((_, shares),) = cost_shares(Outcome(AT["table-4"], Setup(), runs), "megabytes")
    assert shares == {"FedAvg": 1.0, "FedHBM": 0.5, "MimeMom": 1.0}


def test_a_method_that_is_still_rising_has_not_converged():
    flat, rising = result("flat", *[0.5] * 8), result("rising", *np.linspace(0.1, 0.8, 8))
    checks = still_rising(Outcome(AT["figure-5"], Setup(), (flat, rising)))
    assert [check.holds for check in checks] == [False, True]
