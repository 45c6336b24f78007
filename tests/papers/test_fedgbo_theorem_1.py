"""FedGBO's theorem: both sides of its bound, by hand and on quadratics."""

from __future__ import annotations

import pytest
import torch

from driftless.papers.fedgbo import theorem_1


def test_fedgbo_is_the_perturbed_optimiser_and_stays_below_the_bound():
    values = theorem_1.study_theorem(**theorem_1.THEOREM_1.smoke_options)
    assert len(values["cases"]) == 6
    for case in values["cases"]:
        assert case["mismatch"] < 1e-12
        assert 0 < case["measured"] < case["bound"]
        assert case["drift"] > 0
    assert values["rate"][0]["measured"] < values["rate"][0]["bound"]


def test_the_perturbation_is_that_of_equation_2():
    """One client with A, two full-batch steps, β = 0: y_1 = x - η g, so that e = A (0 + (y_1 - x))/2 = -η A g / 2."""
    problem = theorem_1.quadratics(0.0, None)
    run = theorem_1.trace(problem, eta=0.2, beta=0.0, steps=2, rounds=1, seed=0)
    A = problem.rows[0].mT @ problem.rows[0] / problem.rows.shape[1]
    gradient = A @ (run.x[0] - torch.linalg.solve(problem.rows[0], problem.targets[0]))
    torch.testing.assert_close(run.g[0], gradient)
    torch.testing.assert_close(run.e[0], -(0.2 / 2) * A @ gradient / 2)


def test_the_constants_of_the_quadratics_are_those_of_their_matrices():
    full, single = (theorem_1.quadratics(1.0, batch) for batch in (None, 1))
    matrices = full.rows.mT @ full.rows / full.rows.shape[1]
    assert full.smoothness == pytest.approx(float(torch.linalg.matrix_norm(matrices, 2).max()))
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    by_autograd = torch.autograd.functional.jacobian(
        lambda at: (full.rows @ at - full.targets).square().mean(1) / 2, x[1]
    )
    torch.testing.assert_close(full.gradients(x).mean(2)[1], by_autograd)
    assert theorem_1.bounds(full, x).sigma2 == 0
    assert theorem_1.bounds(single, x).sigma2 > 0
    assert theorem_1.bounds(single, x).R2 >= theorem_1.bounds(full, x).R2


def test_the_right_side_of_theorem_1_by_hand():
    at = theorem_1.Bounds(R2=4.0, G2=1.0, sigma2=10.0)
    Y = 18 * 4 * (4 + 1 + 10 / 5)
    assert theorem_1.drift_constant(2.0, at, 5) == Y
    bound = theorem_1.theorem_1_bound(2.0, at, gap=3.0, eta=0.1, beta=0.5, steps=5, T=11)
    # T~ = 10: 2*0.5*3/(0.1*10) + 11*0.01*Y/10 + 2*11*0.1*2*1.5*(4 + 0.01*Y)/(10*0.25)
    assert bound == pytest.approx(3.0 + 0.011 * Y + 2.64 * (4 + 0.01 * Y))


def test_corollary_1_is_theorem_1_at_its_step_size():
    """Exactly for β = 0, where the shortened T is T itself."""
    at, C, T = theorem_1.Bounds(4.0, 1.0, 10.0), 0.3, 50
    theorem = theorem_1.theorem_1_bound(2.0, at, 3.0, eta=2 * C / T**0.5, beta=0.0, steps=5, T=T)
    assert theorem_1.corollary_1_bound(2.0, at, 3.0, C, 0.0, 5, T) == pytest.approx(theorem)


def test_the_random_round_is_weighted_towards_the_beginning():
    problem = theorem_1.quadratics(1.0, None)
    x = torch.zeros(4, 5, dtype=torch.float64)
    x[1:] = theorem_1.optimum(problem.federation)
    first = float(problem.gradients(x[:1]).mean((1, 2)).square().sum())
    weights = [1 - 0.5**3, 1 - 0.5**2, 1 - 0.5]  # of t = 0, 1, 2
    assert theorem_1.expected_gradient(problem, x, 0.5) == pytest.approx(first * weights[0] / sum(weights))
    assert theorem_1.expected_gradient(problem, x, 0.0) == pytest.approx(first / 3)
