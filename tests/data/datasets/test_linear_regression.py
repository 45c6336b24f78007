from __future__ import annotations

import numpy as np
import pytest
import torch

from driftless.data import DATASETS, Federation, optimum
from driftless.data.datasets import linear_regression, quadratics
from driftless.errors import InputError


def test_the_optimum_of_all_examples_is_the_least_squares_solution():
    federation = linear_regression.load(clients=7, unbalanced=1.0, covariance=0.5)
    expected = np.linalg.lstsq(federation.inputs.numpy(), federation.targets.numpy(), rcond=None)[0]
    np.testing.assert_allclose(optimum(federation, weighting="examples").numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["linear-regression", "quadratics"])
def test_the_uniform_optimum_is_least_squares_with_rows_divided_by_the_root_of_the_clients_size(name):
    federation = DATASETS[name].load(clients=7, **({"unbalanced": 1.0} if name == "linear-regression" else {}))
    assert isinstance(federation, Federation)
    root = np.sqrt(np.repeat(federation.sizes, federation.sizes))
    inputs, targets = federation.inputs.numpy() / root[:, None], federation.targets.numpy() / root
    expected = np.linalg.lstsq(inputs, targets, rcond=None)[0]
    np.testing.assert_allclose(optimum(federation).numpy(), expected, rtol=1e-9)


def test_the_optimum_of_too_few_examples_is_the_one_of_least_norm():
    federation = linear_regression.load(clients=1, dimension=10, examples=4)
    expected = np.linalg.lstsq(federation.inputs.numpy(), federation.targets.numpy(), rcond=None)[0]
    np.testing.assert_allclose(optimum(federation).numpy(), expected, rtol=1e-8)


def test_the_optimum_of_something_else_is_an_error():
    with pytest.raises(InputError, match="optimum needs a linear regression"):
        optimum(Federation.from_clients([([[1.0]], [0])]))
    with pytest.raises(InputError, match="weighting must be one of 'uniform', 'examples', got 'equal'"):
        optimum(quadratics.load(), weighting="equal")


def test_linear_regression_has_the_sizes_the_noise_and_the_differences_asked_for():
    federation = linear_regression.load(clients=200, examples=40, dimension=3, unbalanced=0.5, noise=0.0)
    assert federation.sizes.sum() == 8000
    assert federation.sizes.min() >= 1
    assert np.log(federation.sizes).std() == pytest.approx(0.5, rel=0.2)
    alike = linear_regression.load(clients=5, dimension=3, noise=0.0, heterogeneity=0)
    solutions = [np.linalg.lstsq(*(v.numpy() for v in alike.client(i)), rcond=None)[0] for i in range(5)]
    np.testing.assert_allclose(solutions, [solutions[0]] * 5, atol=1e-12)
    assert linear_regression.load(clients=5, examples=8).sizes.tolist() == [8] * 5
    scales = [
        np.std([federation.client(i)[0].std(0).numpy() for i in range(20)])
        for federation in (linear_regression.load(covariance=c, examples=500) for c in (0.0, 1.0))
    ]
    assert scales[0] < 0.1 < scales[1]


@pytest.mark.parametrize("source", [linear_regression, quadratics])
def test_a_problem_is_float64_and_depends_on_its_seed(source):
    first, again, other = (source.load(seed=seed) for seed in (1, 1, 2))
    assert first.inputs.dtype == first.targets.dtype == torch.float64
    assert first.classes is None
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadratics.load(heterogeneity=-1), r"heterogeneity must be a number in \[0, 1000\], got -1"),
        (lambda: quadratics.load(condition=0.5), r"condition must be a number in \[1, 1e\+12\], got 0.5"),
        (lambda: quadratics.load(dimension=0), "dimension must be a whole number of at least 1, got 0"),
        (lambda: linear_regression.load(noise=float("nan")), "noise must be"),
        (lambda: linear_regression.load(covariance=11), r"covariance must be a number in \[0, 10\], got 11"),
        (lambda: linear_regression.load(examples=1.5), "examples must be a whole number of at least 1, got 1.5"),
    ],
)
def test_a_wrong_option_of_a_problem_is_an_error(call, message):
    with pytest.raises(InputError, match=message):
        call()
