"""Intervals, checks and verdicts: on numbers whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from driftless.reproduce.checks import (
    Check,
    Compared,
    above,
    below,
    close,
    exact,
    more_often,
    mostly,
    pooled,
    seldom,
    within,
)
from driftless.reproduce.experiment import Claim, Verdict
from driftless.reproduce.false_verdicts import count_false_verdicts
from driftless.reproduce.intervals import ERROR, error_of_a_look, share_interval, t_interval
from driftless.reproduce.judge import Finding, verdict_of


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def claim(decided_by: str) -> Claim:
    return Claim("c", "", "", lambda outcome: (), decided_by)  # pyright: ignore[reportArgumentType]


def test_the_interval_of_a_mean_is_that_of_the_t_test():
    values = array(1.2, 0.7, 1.9, 1.1)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = t_interval(values, 0.05)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert t_interval(array(1.0), 0.05).low == -math.inf


@pytest.mark.parametrize(("hits", "of"), [(0, 10), (3, 7), (10, 10)])
def test_the_interval_of_a_share_is_the_exact_one(hits: int, of: int):
    expected = stats.binomtest(hits, of).proportion_ci(0.95, "exact")
    found = share_interval(hits, of, 0.05)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_looking_more_often_allows_each_look_a_smaller_error():
    assert error_of_a_look(5, 5) == ERROR
    levels = [error_of_a_look(3, last) for last in (4, 6, 10)]
    assert ERROR > levels[0] > levels[1] > levels[2] > 0.005


def test_all_looks_together_err_as_often_as_allowed():
    rng = np.random.default_rng(7)
    error = error_of_a_look(3, 8)
    wrong = 0
    for values in rng.standard_normal((4000, 8)):
        wrong += any(not (i := t_interval(values[:n], error)).low <= 0 <= i.high for n in range(3, 9))
    assert share_interval(wrong, 4000, 0.001).low < ERROR < share_interval(wrong, 4000, 0.001).high


def test_a_comparison_is_judged_by_the_interval_of_its_paired_differences():
    one, other = array(90.1, 91.0, 89.5, 90.4), array(88.0, 88.8, 87.6, 88.1)
    assert above("", one, other).finding(0.05) == "supported"
    assert below("", one, other).finding(0.05) == "refuted"
    assert above("", one, other, by=5).finding(0.05) == "refuted"
    assert above("", one, array(88.0, 95.0, 87.0, 90.0)).finding(0.05) == "undecided"
    assert above("", one[:1], other[:1]).finding(0.05) == "undecided"  # one seed decides nothing


def test_pairs_decide_what_means_would_not():
    base = array(50.0, 70.0, 90.0)  # seeds differ by far more than the algorithms
    assert above("", base + array(1.0, 1.1, 0.9), base).finding(0.05) == "supported"


def test_close_means_less_than_the_margin_in_both_directions():
    one, other = array(80.1, 80.0, 79.9, 80.1), array(80.0, 80.0, 80.0, 80.0)
    assert [check.finding(0.05) for check in close("", one, other, 1)] == ["supported", "supported"]
    assert "refuted" in [check.finding(0.05) for check in close("", one + 3, other, 1)]


def test_what_is_seen_names_the_difference_its_interval_and_what_is_asked_for():
    check = above("A against B", array(3.0, 4.0, 5.0), array(1.0, 2.0, 2.5), by=1, unit=" %")
    low, _, high = t_interval(check.differences, 0.05)
    assert check.seen(0.05) == f"+2.17 [{low:.3g}, {high:.3g}] points (more than 1)"
    assert below("", array(1.0, 2.0), array(2.0, 4.0), by=1).limit == -1


def test_infinite_and_equal_values_are_judged_by_their_signs():
    never = array(*[math.inf] * 6)
    assert below("rounds", array(3, 4, 5, 4, 3, 4), never).finding(0.05) == "supported"
    assert below("rounds", array(3, 4, 5), never[:3]).finding(0.05) == "undecided"
    assert above("", never, never).finding(0.05) == "undecided"  # no difference is known
    assert above("", array(1, 1, 1), array(0, 0, 0)).finding(0.05) == "undecided"  # three of a kind may be chance
    assert above("", array(*[1] * 7), array(*[0] * 7)).finding(0.05) == "supported"


def test_failures_are_counted_and_not_averaged():
    assert more_often("", [True] * 6, [False] * 6).finding(0.05) == "supported"
    assert more_often("", [True] * 4, [False] * 4).finding(0.05) == "undecided"
    assert seldom("", [False] * 40, below=0.1).finding(0.05) == "supported"
    assert seldom("", [False] * 5, below=0.1).finding(0.05) == "undecided"  # none of five is not "never"
    assert seldom("", [True] * 5, below=0.1).finding(0.05) == "refuted"
    assert mostly("", [True] * 6, above=0.5).finding(0.05) == "supported"


def test_what_is_computed_is_certain():
    assert exact("", True).finding(0.05) == "supported"
    assert within("", 1.0, 1.5, 0.1).finding(0.05) == "refuted"


def test_an_average_over_settings_takes_a_seed_as_one_unit():
    seed = array(1.0, -1.0, 3.0)  # the same in all settings, as if they shared what is random
    alone, many = above("", seed, 0.0), pooled([above("", seed, 0.0)] * 20)
    assert many.interval(0.05) == pytest.approx(alone.interval(0.05))  # twenty copies are no more evidence
    assert isinstance(many, Compared)


def test_an_average_keeps_the_margin_of_its_checks():
    found = pooled(
        [above("", array(1.0, 2.0, 3.0), 0.0, by=-1, unit=" %"), above("", array(3.0, 2.0, 1.0), 0.0, by=-1)]
    )
    assert isinstance(found, Compared)
    assert found.limit == -1
    assert found.differences.tolist() == [2, 2, 2]


def test_an_average_of_failures_counts_all_runs():
    found = pooled([seldom("", [False] * 20, below=0.1), seldom("", [True, *[False] * 19], below=0.1)])
    assert found.seen(0.05).startswith("1 of 40 runs")


SUPPORTED, REFUTED = exact("", True), exact("", False)
OPEN = above("", array(1.0, -1.0, 0.5), 0.0)


@pytest.mark.parametrize(
    ("decided_by", "checks", "verdict"),
    [
        ("all", [SUPPORTED, SUPPORTED], "supported"),
        ("all", [SUPPORTED, OPEN], "undecided"),
        ("all", [SUPPORTED, OPEN, REFUTED], "refuted"),
        ("any", [OPEN, SUPPORTED, REFUTED], "supported"),
        ("any", [OPEN, REFUTED], "undecided"),
        ("any", [REFUTED, REFUTED], "refuted"),
        ("average", [OPEN, OPEN], "undecided"),
    ],
)
def test_the_verdict_follows_from_the_checks(decided_by: str, checks: list[Check], verdict: str):
    assert verdict_of(claim(decided_by), checks, 0.05) == verdict


def test_one_of_many_comparisons_must_be_more_certain_to_refute_a_claim_about_all():
    differences = array(-1.0, -2.0, -1.6, -0.4)
    check = above("", differences, 0.0)
    assert check.finding(0.05) == "refuted"
    assert verdict_of(claim("all"), [check], 0.05) == "refuted"
    assert verdict_of(claim("all"), [check, *[SUPPORTED] * 19], 0.05) == "undecided"


@pytest.mark.parametrize(
    ("decided_by", "verdict", "shown"),
    [("all", "refuted", 1), ("all", "undecided", 2), ("any", "supported", 0), ("any", "undecided", 2)],
)
def test_the_interval_beside_a_verdict_is_that_of_a_comparison_with_this_verdict(
    decided_by: str, verdict: Verdict, shown: int
):
    """A refuted claim does not show a comparison that might still hold, however wide its interval."""
    checks = (
        above("holds", array(1.0, 1.01, 1.02), 0.0),
        above("does not hold", array(-0.2, -0.21, -0.22), 0.0),
        above("unknown", array(-9.0, 5.0, 12.0), 0.0),
    )
    assert Finding(claim(decided_by), verdict, checks, 0.05).decisive is checks[shown]


def test_an_undecided_claim_says_how_many_seeds_would_decide_it():
    seen = array(1.0, 2.0, -0.5)
    finding = Finding(claim("all"), "undecided", (above("", seen, 0.0),), 0.05)
    more = finding.more_seeds
    assert more is not None
    n, mean, std = len(seen) + more, seen.mean(), seen.std(ddof=1)
    assert mean > stats.t.isf(0.025, n - 1) * std / math.sqrt(n)
    assert mean <= stats.t.isf(0.025, n - 2) * std / math.sqrt(n - 1)
    none = Finding(claim("all"), "undecided", (above("", array(1.0, -1.0, 0.001), 0.0),), 0.05)
    assert none.more_seeds is None  # more than can be run


def test_a_claim_that_one_of_many_comparisons_nearly_refutes_says_how_many_seeds_would_refute_it():
    against = above("", array(-8.3, -8.0, -9.8), -3.0)
    checks = (against, *[SUPPORTED] * 3)
    assert against.finding(0.01) == "refuted"
    assert verdict_of(claim("all"), checks, 0.01) == "undecided"
    assert Finding(claim("all"), "undecided", checks, 0.01).more_seeds == against.more_seeds(0.01 / 4) == 1


@pytest.mark.parametrize("kind", ["normal", "skewed", "accuracy of 500 examples", "rounds, in steps of 5"])
@pytest.mark.parametrize(("first", "last"), [(3, 3), (3, 8)])
def test_equals_are_called_different_in_less_than_one_of_twenty_claims(kind: str, first: int, last: int):
    rng = np.random.default_rng(3)
    values = {
        "normal": rng.standard_normal(600),
        "skewed": rng.exponential(size=600),
        "accuracy of 500 examples": np.round(500 * rng.normal(0.9, 0.01, 600)) / 500,
        "rounds, in steps of 5": 5.0 * rng.integers(4, 7, 600),
    }[kind]
    found = count_false_verdicts([values], first, last, trials=600)
    assert share_interval(found.false, found.trials, 0.002).low < ERROR


def test_runs_of_one_algorithm_under_two_names_are_seldom_called_different():
    """A small A/A study on real runs; examples/false_verdicts.py is the full one."""
    import driftless

    federation = driftless.load("digits", clients=20, partition="dirichlet", alpha=0.3, seed=0)

    def accuracy(seed: int) -> float:
        result = driftless.simulate(
            driftless.ALGORITHMS["fedavg"](), federation, "logistic", rounds=3, cohort=3, seed=seed,
            local=driftless.LocalTraining(lr=0.3, epochs=1, batch_size=20), evaluate_every=3,
            engine=driftless.EngineSettings(kind="single", workers=1),
        )  # fmt: skip
        return float(result.history["test_accuracy"][-1])

    values = array(*map(accuracy, range(40)))
    found = count_false_verdicts([values], 3, 6, trials=400)
    assert len(set(values)) > 10
    assert found.share.low < ERROR
