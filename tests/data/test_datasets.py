from __future__ import annotations

import hashlib
from importlib.resources import files

import numpy as np
import pytest
import torch

from driftless.data import DATASETS, Federation, optimum
from driftless.data.datasets import digits, linear_regression, quadratics
from driftless.errors import InputError


def test_digits_are_the_1797_digits_of_the_repository():
    examples = digits.load()
    assert examples.test is not None
    assert examples.inputs.shape == (1437, 1, 8, 8)
    assert examples.test[0].shape == (360, 1, 8, 8)
    assert examples.inputs.dtype == torch.float32
    assert examples.targets.dtype == torch.int64
    assert (examples.inputs.min(), examples.inputs.max()) == (0, 1)
    assert "CC BY 4.0" in examples.source
    counts = np.bincount(np.concatenate([examples.targets, examples.test[1]]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_pixels_and_labels_are_those_of_the_source_file():
    with (files("driftless.data") / "embedded" / "digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        content = stored["images"].tobytes() + stored["labels"].tobytes()
    # computed from the comma-separated file: all pixels as bytes in the order of the file, then all labels
    assert hashlib.sha256(content).hexdigest() == "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_content_and_the_split_of_digits_never_change():
    examples = digits.load()
    assert examples.test is not None
    digest = hashlib.sha256()
    for inputs, targets in ((examples.inputs, examples.targets), examples.test):
        digest.update((inputs * 16).to(torch.uint8).numpy().tobytes())
        digest.update(targets.to(torch.uint8).numpy().tobytes())
    assert digest.hexdigest() == "cf0ea2b93c83207e926094aa0ef4b009e8625caf456181b52f38e2692a4da47b"


def test_the_split_of_digits_is_stratified():
    examples = digits.load()
    assert examples.test is not None
    train, test = np.bincount(examples.targets), np.bincount(examples.test[1])
    assert np.abs(test - (train + test) * 360 / 1797).max() < 1


def curvature_and_optimum(federation: Federation, i: int) -> tuple[np.ndarray, np.ndarray]:
    inputs, targets = (values.numpy() for values in federation.client(i))
    return inputs.T @ inputs / len(inputs), np.linalg.solve(inputs, targets)


def test_quadratics_without_heterogeneity_share_optimum_and_curvature():
    federation = quadratics.load(clients=5, dimension=4, heterogeneity=0, condition=100)
    A, x = curvature_and_optimum(federation, 0)
    for i in range(1, 5):
        A_i, x_i = curvature_and_optimum(federation, i)
        np.testing.assert_allclose(A_i, A, atol=1e-14)
        np.testing.assert_allclose(x_i, x, atol=1e-12)
    np.testing.assert_allclose(optimum(federation).numpy(), x, atol=1e-12)


def test_the_clients_of_quadratics_differ_more_as_heterogeneity_grows():
    spreads = []
    for heterogeneity in (0.0, 0.1, 0.5, 2.0):
        federation = quadratics.load(clients=30, dimension=4, heterogeneity=heterogeneity)
        pairs = [curvature_and_optimum(federation, i) for i in range(30)]
        spreads.append([np.std([values[k] for values in pairs], axis=0).mean() for k in range(2)])
    assert (np.diff(spreads, axis=0) > 1e-3).all()


@pytest.mark.parametrize("heterogeneity", [0, 0.3, 5])
def test_every_quadratic_has_the_condition_number_asked_for(heterogeneity):
    federation = quadratics.load(clients=6, dimension=5, heterogeneity=heterogeneity, condition=50)
    for i in range(6):
        eigenvalues = np.linalg.eigvalsh(curvature_and_optimum(federation, i)[0])
        assert eigenvalues[-1] <= 1 + 1e-12
        assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(50)


def test_half_the_mean_squared_error_is_the_quadratic():
    federation = quadratics.load(clients=3, dimension=4)
    point = np.array([1.0, -2.0, 0.5, 3.0])
    for i in range(3):
        inputs, targets = (values.numpy() for values in federation.client(i))
        A, x = curvature_and_optimum(federation, i)
        assert 0.5 * np.mean((inputs @ point - targets) ** 2) == pytest.approx(0.5 * (point - x) @ A @ (point - x))


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
        (lambda: quadratics.load(dimension=0), "dimension must be an integer >= 1, got 0"),
        (lambda: linear_regression.load(noise=float("nan")), "noise must be"),
        (lambda: linear_regression.load(covariance=11), r"covariance must be a number in \[0, 10\], got 11"),
        (lambda: linear_regression.load(examples=1.5), "examples must be an integer >= 1, got 1.5"),
    ],
)
def test_a_wrong_option_of_a_problem_is_an_error(call, message):
    with pytest.raises(InputError, match=message):
        call()
