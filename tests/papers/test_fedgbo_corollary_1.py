"""FedGBO with a number of local steps that decays, on quadratics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from driftless.data import optimum
from driftless.engine.local import LocalTraining
from driftless.papers.fedgbo import corollary_1
from driftless.papers.fedgbo.corollary_1 import COHORTS, COROLLARY_1
from driftless.papers.fedgbo.theorem_1 import quadratics
from driftless.reproduce.judge import judge
from driftless.reproduce.outcome import Outcome


def test_the_local_steps_are_halved_after_every_fifth():
    assert corollary_1.decaying_steps(10) == [20, 20, 10, 10, 5, 5, 2, 2, 1, 1]
    steps = corollary_1.decaying_steps(200)
    assert [steps.count(K) for K in (20, 10, 5, 2, 1)] == [40] * 5


def test_both_that_decay_move_as_far_in_every_round():
    plans = corollary_1.plans(0.1, 10)
    for t, K in enumerate(corollary_1.decaying_steps(10), start=1):
        assert plans["η decays"].lr_at(t) * 20 == pytest.approx(0.1 * K)
    assert plans["K decays"].lr_at(10) == plans["K = 20"].lr_at(10)
    assert plans["η / 20"].lr_at(1) * 20 == pytest.approx(plans["K = 1"].lr_at(1))


@pytest.mark.parametrize("steps", [3, [4, 2, 2, 1, 1, 1]])
def test_the_gap_is_that_of_a_reference_in_numpy(steps: int | list[int]):
    """All clients take part, so that nothing is random."""
    problem, rounds, lr = quadratics(1.0, None, seed=3), 6, 0.1
    seen = corollary_1.gaps(problem, LocalTraining(lr=lr, steps=steps, batch_size=None), 20, rounds, seed=0)
    rows, targets = problem.rows.numpy(), problem.targets.numpy()
    A, b = (rows.swapaxes(1, 2) @ rows) / 5, np.einsum("ijk,ij->ik", rows, targets) / 5
    x, m, beta = np.zeros(5), np.zeros(5), corollary_1.BETA
    expected = []
    for t in range(rounds):
        K = steps if isinstance(steps, int) else steps[t]
        y = np.tile(x, (20, 1))
        for _ in range(K):
            y = y - lr * (beta * m + (1 - beta) * (np.einsum("ijk,ik->ij", A, y) - b))
        m, x = (x - y.mean(0)) / (lr * K), y.mean(0)  # what SGDm's inverse and tracking make of it
        expected.append(problem.loss(torch.from_numpy(x)))
    least, start = problem.loss(optimum(problem.federation)), problem.loss(torch.zeros(5, dtype=torch.float64))
    np.testing.assert_allclose(seen, (np.array(expected) - least) / (start - least), rtol=1e-8)


def verdict(claim: str, **ends: list[float]) -> str:
    """Of values for the plans, the same for each size of the cohort and for start and end."""
    cases: list[dict[str, Any]] = [
        {"cohort": cohort, "plan": plan.replace("_", " "), "start": values, "end": values}
        for cohort in COHORTS
        for plan, values in ends.items()
    ]
    (chosen,) = (one for one in COROLLARY_1.claims if one.name == claim)
    return judge(chosen, Outcome(COROLLARY_1, COROLLARY_1.paper, values={"cases": cases}), "small").verdict


def test_the_smaller_gap_is_judged_seed_by_seed():
    large, small, noisy = [-1.4, -1.5, -1.3], [-2.6, -2.5, -2.7], [-0.5, -3.0, -1.5]
    for gap, expected in ((small, "supported"), (noisy, "undecided")):
        assert verdict("steps-final-error", **{"K_=_20": large, "K_decays": gap}) == expected
        assert verdict("steps-fast-start", **{"K_=_1": large, "K_decays": gap}) == expected
        assert verdict("rate-final-error", **{"K_=_20": large, "η_decays": gap}) == expected
        assert verdict("rate-fast-start", **{"η_/_20": large, "η_decays": gap}) == expected
    assert verdict("steps-final-error", **{"K_=_20": small, "K_decays": [-1.4, -1.6, -1.4]}) == "refuted"
