"""The GHBM paper: its numbers, its settings, its studies and how claims are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from driftless.papers.ghbm import GHBM, corollary_4_5, lemma_b_3
from driftless.papers.ghbm.figure_1 import reused_gradients
from driftless.papers.ghbm.figure_5 import still_rising
from driftless.papers.ghbm.figure_8 import SERVER_SIDE
from driftless.papers.ghbm.figure_9 import cyclic_quadratics
from driftless.papers.ghbm.hyper_parameters import hyper_parameters
from driftless.papers.ghbm.measures import SELECTION, last_rounds
from driftless.papers.ghbm.quadratics import client_gradients
from driftless.papers.ghbm.settings import IID, NON_IID, small_cell
from driftless.papers.ghbm.table_3 import BATCH_SIZE, LARGE_ROUNDS, SPLITS
from driftless.papers.ghbm.table_4 import COLUMNS, cost_shares, saving
from driftless.report.curves import Run
from driftless.report.metrics import Axis
from driftless.reproduce.experiment import Cell, Number, Setup, Verdict
from driftless.reproduce.judge import Finding, judge
from driftless.reproduce.outcome import Outcome, Result
from driftless.reproduce.runner import searched

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


def test_five_epochs_of_the_mean_client_are_the_local_steps_of_table_6():
    for data in ("GLDv2", "iNaturalist"):
        assert SPLITS[data]["steps"] == math.ceil(5 * SPLITS[data]["examples"] / BATCH_SIZE)


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
    assert set(hyper_parameters("SCAFFOLD-M", "CNN")[1]) == {"algorithm.server_lr", "local.lr"}


def test_photographs_begin_with_pretrained_weights():
    photos = [cell for cell in AT["table-3"].paper.cells if not str(cell.at["setting"]).startswith("StackOverflow")]
    assert all(str(cell.settings["model.weights"]).endswith(".safetensors") for cell in photos)
    assert all(cell.settings["local.epochs"] == 5 and "local.steps" not in cell.settings for cell in photos)


def test_a_learning_rate_is_chosen_in_every_small_cell_on_data_that_are_never_trained_on():
    for one in GHBM.experiments:
        for cell in one.small.cells if one.small else ():
            assert "local.lr" in cell.grid
            assert cell.settings["data.clients"] - cell.settings["data.validation"] == 100
            assert cell.settings["data.validation"] or cell.settings["data.client_test"]
            assert one.selection is SELECTION


def test_the_grid_does_not_depend_on_the_degree_of_heterogeneity():
    assert small_cell(NON_IID, "SCAFFOLD").grid == small_cell(IID, "SCAFFOLD").grid == small_cell(0.5, "FedAvg").grid


def test_figures_at_small_scale_are_views_of_the_same_runs(tmp_path: Path):
    def folders(name: str) -> set[Path]:
        small = AT[name].small
        assert small is not None
        return {one.folder for one in searched(small, tmp_path, small.seeds)}

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
    assert np.max(found[NON_IID]["1"]) < 1e-5 < np.min(found[NON_IID]["2"])


def test_the_gap_to_the_optimum_falls_and_is_never_negative():
    found = cyclic_quadratics(clients=4, cohort=2, steps=(1,), rounds=12, lr=0.5, seeds=1)["1"]
    assert all(min(values) > -1e-12 and values[-1] < values[0] for (values,) in found.values())
    assert len(found) == 4


# ---- Judging --------------------------------------------------------------------------------------------------------


Given = Mapping[str, float]


def outcome_of(experiment: str, *settings: tuple[Mapping[str, Any], Given], noise: float = 1.0) -> Outcome:
    """Algorithms with about these scores in each setting, each with its own deviations over three seeds."""
    deviations = np.random.default_rng(0)
    results = [
        Result(Cell({**at, "algorithm": name}, {}), (), printed=score + noise * deviations.uniform(-0.1, 0.1, 3))
        for at, scores in settings
        for name, score in scores.items()
    ]
    return Outcome(AT[experiment], Setup(seeds=3), tuple(results))


def found(outcome: Outcome, claim: str) -> Finding:
    return judge(next(one for one in outcome.experiment.claims if one.name == claim), outcome, "small")


def verdict(
    experiment: str, claim: str, scores: Given, noise: float = 1.0, at: Mapping[str, Any] | None = None
) -> Verdict:
    return found(outcome_of(experiment, (at or SETTING, scores), noise=noise), claim).verdict


SETTING = {"data": "any", "labels": NON_IID}


def test_the_best_tau_may_be_beaten_by_less_than_a_point():
    scores = {"GHBM τ=1": 60.0, "GHBM τ=10": 80.0, "GHBM τ=20": 80.4}
    assert verdict("figure-2", "optimum", scores) == "supported"
    assert verdict("figure-2", "optimum", {**scores, "GHBM τ=20": 82.0}) == "refuted"
    assert verdict("figure-2", "optimum", {**scores, "GHBM τ=20": 81.0}) == "undecided"


def test_a_large_tau_may_lose_a_quarter_of_the_gain():
    scores = {"GHBM τ=1": 60.0, "GHBM τ=10": 80.0, "GHBM τ=20": 76.0}
    assert verdict("figure-2", "large-tau", scores) == "supported"
    assert verdict("figure-2", "large-tau", {**scores, "GHBM τ=40": 74.0}) == "refuted"
    assert verdict("figure-2", "large-tau", scores, noise=20) == "undecided"


def test_classical_momentum_that_gains_as_much_contradicts_the_claim():
    scores = {"FedAvg": 70.0, "GHBM τ=1": 71.0, "GHBM τ=10": 80.0}
    assert verdict("figure-2", "tau-1", scores) == "supported"
    assert verdict("figure-2", "tau-1", {**scores, "GHBM τ=1": 79.0}) == "refuted"


def test_the_adaptive_methods_are_compared_with_every_tau():
    scores = {"LocalGHBM": 80.0, "FedHBM": 81.0, "GHBM τ=5": 70.0, "GHBM τ=10": 80.4}
    assert verdict("figure-2", "adaptive", scores) == "supported"
    assert verdict("figure-2", "adaptive", {**scores, "GHBM τ=5": 83.0}) == "refuted"


def test_the_two_methods_are_compared_with_all_but_each_other_and_full_participation():
    scores = {"FedAvg": 60.0, "FedCM, all clients": 99.0, "LocalGHBM": 70.0, "FedHBM": 72.0}
    assert verdict("table-2", "best-non-iid", scores) == "supported"
    assert verdict("table-2", "best-non-iid", {**scores, "MIME": 71.0}) == "refuted"
    assert verdict("table-2", "best-non-iid", {**scores, "MIME": 69.9}) == "undecided"


def test_full_participation_is_matched_within_two_points_but_for_the_case_that_the_text_leaves_out():
    scores = {"FedCM, all clients": 50.0, "LocalGHBM": 49.0, "FedHBM": 50.5}
    assert verdict("table-2", "upper-bound", scores) == "supported"
    assert verdict("table-2", "upper-bound", {**scores, "FedHBM": 47.0}) == "refuted"
    left_out = {"data": "CIFAR-100, ResNet-20", "labels": NON_IID}
    assert verdict("table-2", "upper-bound", {**scores, "FedHBM": 42.0}, at=left_out) == "not tested"


def test_a_claim_about_methods_that_were_not_run_is_not_judged():
    finding = found(outcome_of("table-2", (SETTING, {"FedAvg": 60.0})), "upper-bound")
    assert finding.verdict == "not tested"
    assert "not run together" in finding.reason


def test_scaffold_with_momentum_is_judged_by_the_average_over_the_settings():
    def at(*gains: float) -> Verdict:
        settings = (
            ({"data": str(i), "labels": NON_IID}, {"SCAFFOLD": 50.0, "SCAFFOLD-M": 50.0 + gain, "FedHBM": 54.0})
            for i, gain in enumerate(gains)
        )
        return found(outcome_of("table-2", *settings), "scaffold-m").verdict

    assert at(0.0, 2.5) == "supported"
    assert at(2.5, 2.5) == "refuted"
    assert at(1.0, 3.0) == "undecided"


@pytest.mark.parametrize(("lost", "close", "far"), [
    ((1.0, 9.0), "supported", "supported"),
    ((1.0, 1.0), "supported", "refuted"),
    ((9.0, 9.0), "refuted", "supported"),
    ((2.0, 2.0), "undecided", "undecided"),
])  # fmt: skip
def test_momentum_on_the_server_is_close_with_one_model_and_far_with_another(lost, close, far):
    settings = (({"data": str(i), "labels": NON_IID}, {"GHBM": 80.0, SERVER_SIDE: 80.0 - points})
                for i, points in enumerate(lost))  # fmt: skip
    outcome = outcome_of("figure-8", *settings)
    assert found(outcome, "close-on-one").verdict == close
    assert found(outcome, "far-on-another").verdict == far


def over_alpha(experiment: str, at_zero: Given, moderate: Given, iid: Given, noise: float = 1.0) -> Outcome:
    degrees = zip((0.0, 0.5, 10_000.0), (at_zero, moderate, iid), strict=True)
    return outcome_of(experiment, *(({"data": "any", "alpha": alpha}, given) for alpha, given in degrees), noise=noise)


ALIKE = {"FedAvg": 85.0, "FedHBM": 85.2}


@pytest.mark.parametrize(
    ("fedhbm", "noise", "expected"), [(85.2, 1, "supported"), (82.0, 1, "refuted"), (85.2, 20, "undecided")]
)
def test_the_best_method_must_be_so_at_every_degree_of_heterogeneity(fedhbm, noise, expected):
    extreme, iid = {"FedAvg": 60.0, "FedHBM": 80.0}, {**ALIKE, "FedHBM": fedhbm}
    assert found(over_alpha("figure-3", extreme, ALIKE, iid, noise), "always-best").verdict == expected


@pytest.mark.parametrize(
    ("fedavg", "fedhbm", "expected"),
    [
        (80.0, 84.0, "supported"),
        (70.0, 76.0, "refuted"),
        (74.0, 85.2, "supported"),  # FedAvg loses too much, FedHBM so little that it makes up for it
        (75.0, 80.1, "undecided"),
    ],
)
def test_methods_are_robust_when_they_lose_less_than_half_at_moderate_heterogeneity(fedavg, fedhbm, expected):
    extreme, moderate = {"FedAvg": 65.0, "FedHBM": 75.0}, {"FedAvg": fedavg, "FedHBM": fedhbm}
    assert found(over_alpha("figure-3", extreme, moderate, ALIKE), "robust").verdict == expected


def test_fewer_rounds_are_better_and_momentum_must_be_the_fastest_of_all_at_one_class_a_client():
    rounds = {"FedAvg": 150.0, "SCAFFOLD": 120.0, "MimeMom": 50.0, "FedHBM": 40.0}
    usual = {"FedAvg": 20.0, "FedAvgM": 20.0, "MimeMom": 19.0, "FedHBM": 18.0}
    outcome = over_alpha("figure-6", rounds, usual, usual)
    assert found(outcome, "pathological").verdict == "supported"
    assert found(outcome, "fedhbm").verdict == "supported"
    assert found(outcome, "mimemom").verdict == "supported"
    slower = over_alpha("figure-6", {**rounds, "SCAFFOLD": 45.0}, {**usual, "FedHBM": 30.0}, {**usual, "MimeMom": 9.0})
    assert found(slower, "pathological").verdict == "refuted"
    assert found(slower, "fedhbm").verdict == "refuted"


def test_what_the_paper_prints_supports_most_of_its_claims_and_not_that_about_variance_reduction():
    outcome = Outcome(AT["figure-3"], Setup(seeds=3)).as_printed()
    effects = {
        name: [float(check.effects[0]) for check in claim.checks(outcome)]  # pyright: ignore[reportAttributeAccessIssue]
        for name, claim in ((one.name, one) for one in outcome.experiment.claims if one.name != "robust")
    }
    assert min(effects["always-best"]) > 0
    assert min(effects["momentum"]) == pytest.approx(69.2 - 71.8)  # MimeMom with the ResNet-20


def test_the_value_of_a_hyper_parameter_is_compared_with_the_others_of_its_grid():
    def at(*qualities: float) -> Verdict:
        cells = (
            ({"column": "CNN", "tau": tau}, {"GHBM": quality})
            for tau, quality in zip((5, 10, 20), qualities, strict=True)
        )
        return found(outcome_of("table-7", *cells), "chosen").verdict

    assert at(70.0, 80.0, 79.0) == "supported"
    assert at(82.0, 80.0, 79.0) == "refuted"


def decayed(constant: float, strong: float, mild: float) -> Outcome:
    """FedHBM, beside a FedAvg that decay leaves as it is."""
    settings = [({**SETTING, "decay": decay}, {"FedAvg": 70.0 + decay, "FedHBM": quality})
                for decay, quality in ((1.0, constant), (0.951, strong), (0.995, mild))]  # fmt: skip
    return outcome_of("figure-7", *settings)


def test_the_mildest_decay_is_the_best_and_does_not_help():
    outcome = decayed(80.0, 70.0, 79.0)
    assert found(outcome, "no-help").verdict == "supported"
    assert found(outcome, "order").verdict == "supported"
    assert found(decayed(80.0, 70.0, 85.0), "no-help").verdict == "refuted"
    assert found(decayed(80.0, 70.0, 71.0), "order").verdict == "refuted"
    assert found(decayed(80.0, 79.5, 71.0), "mildest").verdict == "refuted"


def test_option_one_of_scaffold_computes_almost_twice_as_much():
    experiment = AT["appendix-c-5"]
    assert experiment.study is not None
    outcome = Outcome(experiment, Setup(), (), experiment.study())
    finding = found(outcome, "computing")
    assert finding.verdict == "supported"
    assert outcome.values["SCAFFOLD, option I"] / outcome.values["SCAFFOLD, option II"] == pytest.approx(1.98, abs=0.01)


def of_study(experiment: str, claim: str, values: Mapping[str, Any]) -> Verdict:
    return found(Outcome(AT[experiment], Setup(), (), values), claim).verdict


@pytest.mark.parametrize(("fedcm", "expected"), [(0.5, "supported"), (0.011, "refuted"), (0.02, "undecided")])
def test_the_gaps_of_quadratics_are_compared_seed_by_seed(fedcm, expected):
    """Four seeds whose gaps differ by factors; twice the gap of GHBM is 0.02."""
    noise = {1: 1.0, 2: 1.1, 3: 0.9, 4: 1.0}
    gaps = {
        "FedCM, cyclic": [[fedcm * seed * by] for seed, by in noise.items()],
        "GHBM as analysed, cyclic": [[0.01 * seed] for seed in noise],
    }
    assert of_study("figure-9", "fedcm-cyclic", {"1": gaps}) == expected


def test_convergence_is_judged_by_the_logarithm_of_the_gap_and_by_the_sum_of_gradients():
    def at(gap: float, total: float) -> tuple[Verdict, Verdict]:
        values = {"1": {
            "FedCM, cyclic": [[1.0 * seed, 1.0, 2.0] for seed in (1, 2, 3)],
            "GHBM as analysed, cyclic": [[gap * noise, 1.0, total * noise] for noise in (1.0, 1.001, 0.999)],
        }}  # fmt: skip
        return of_study("theorem-4-7", "unbounded", values), of_study("theorem-4-7", "rate", values)

    assert at(1e-9, 1.01) == ("supported", "supported")
    assert at(1.0, 1.5) == ("refuted", "refuted")


class FakeRun:
    """A run with an accuracy a round and 2 MB a round."""

    def __init__(self, *accuracy: float, held_out: float | None = None, status: str = "finished") -> None:
        self._columns = {"test_accuracy": np.array(accuracy)}
        self.status = status
        self.rounds = np.arange(1, len(accuracy) + 1)
        self.played = self.budget = len(accuracy)
        if held_out is not None:
            self.measured("validation_accuracy", held_out)

    @property
    def metrics(self) -> set[str]:
        return set(self._columns)

    def measured(self, key: str, value: float) -> None:
        """The same in all rounds."""
        self._columns[key] = np.full(len(self.rounds), value)

    def column(self, key: str) -> Any:
        return self._columns[key]

    def total(self, axis: Axis) -> Any:
        return self.rounds * (2.0 if axis.sums else 1.0)


def result(name: str, *runs: FakeRun) -> Result:
    cell = Cell({"data": "any", "labels": NON_IID, "algorithm": name}, {})
    return Result(cell, tuple(cast(Run, run) for run in runs))


def test_quality_is_the_mean_of_the_last_quarter_of_a_short_run_for_each_seed():
    short = result("any", FakeRun(*[0.1] * 6, 0.4, 0.6), FakeRun(*[0.1] * 8))
    assert last_rounds(short) == pytest.approx([0.5, 0.1])
    assert last_rounds(result("any", FakeRun(*[0.0] * 900, *[0.3] * 100))) == pytest.approx([0.3])


def test_rates_are_chosen_by_held_out_examples_where_no_client_is_held_out():
    run = FakeRun(0.9, 0.9)
    for percentile, value in ((5, 0.1), (50, 0.2), (95, 0.6)):
        run.measured(f"test_p{percentile}", value)
    assert SELECTION(result("any", run)) == pytest.approx([30])


def test_rates_are_chosen_by_held_out_clients_and_never_one_that_diverges():
    assert SELECTION(result("any", FakeRun(0.9, 0.9, held_out=0.2))) == pytest.approx([20])
    assert SELECTION(result("any", FakeRun(0.9, 0.9))) == pytest.approx([90])
    assert np.isnan(SELECTION(result("any", FakeRun(0.9, 0.9, held_out=0.9, status="diverged")))).all()


def test_the_cost_of_fedavg_is_its_budget_and_that_of_others_ends_where_its_quality_is_reached():
    runs = (
        result("FedAvg", FakeRun(0.9, 0.1, 0.2, 0.5), FakeRun(0.1, 0.1, 0.1, 0.1)),
        result("FedHBM", FakeRun(0.1, 0.5, 0.6, 0.6), FakeRun(0.1, 0.5, 0.6, 0.6)),
        result("MimeMom", FakeRun(0, 0, 0, 0), FakeRun(0, 0, 0, 0)),
    )
    ((_, shares),) = cost_shares(Outcome(AT["table-4"], Setup(), runs), "megabytes")
    assert {name: each.tolist() for name, each in shares.items()} == {
        "FedAvg": [1.0, 1.0], "FedHBM": [0.5, 0.25], "MimeMom": [1.0, 1.0],
    }  # fmt: skip


def test_a_method_that_is_still_rising_has_not_converged():
    shapes = {"flat": np.full(8, 0.5), "rising": np.linspace(0.1, 0.8, 8)}
    runs = [result(name, *(FakeRun(*(shape + more)) for more in (0.0, 0.1, 0.2))) for name, shape in shapes.items()]
    checks = still_rising(Outcome(AT["figure-5"], Setup(), tuple(runs)))
    assert [float(check.interval(0.05).mean) > 0 for check in checks] == [False, True]
