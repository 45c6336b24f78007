"""The numbers that are added: their distribution, and what they do and do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest, norm

from driftless.privacy.noise import keyed_normal, normal_from_bytes, secure_normal
from driftless.random import key

LIKE = torch.zeros(200_000, dtype=torch.float64)


@pytest.mark.parametrize("seed", [0, 7])
def test_keyed_noise_is_standard_normal(seed):
    noise = keyed_normal(LIKE, seed, t=3, field=1).numpy()
    assert kstest(noise, "norm").pvalue > 1e-3
    assert chi2(len(noise)).sf(np.square(noise).sum()) == pytest.approx(0.5, abs=0.499)


def test_secure_noise_is_standard_normal():
    """Its numbers differ from run to run: this fails once in a million runs."""
    noise = secure_normal(LIKE).numpy()
    assert kstest(noise, "norm").pvalue > 1e-6
    assert abs(np.square(noise).mean() - 1) < 5 * np.sqrt(2 / len(noise))
    assert not np.array_equal(noise, secure_normal(LIKE).numpy())


def test_secure_numbers_are_the_quantiles_of_uniform_ones():
    assert kstest(normal_from_bytes(np.random.Philox(1).random_raw(100_000).tobytes()), "norm").pvalue > 1e-3
    extremes = normal_from_bytes(b"\0" * 8 + b"\xff" * 8)
    assert extremes == pytest.approx([norm.ppf(2**-53), norm.isf(2**-53)], rel=1e-9)
    assert normal_from_bytes(b"\0" * 7 + b"\x80") == pytest.approx([0], abs=1e-15)


def test_noise_of_other_rounds_fields_and_seeds_is_independent():
    draws = [
        keyed_normal(LIKE, seed, t, field).numpy() for seed, t, field in [(0, 1, 0), (0, 2, 0), (0, 1, 1), (1, 1, 0)]
    ]
    correlations = np.corrcoef(draws)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(len(LIKE))


def test_keyed_noise_is_the_same_again_and_comes_from_philox():
    expected = np.random.Generator(np.random.Philox(key=key(5, "privacy", 2, 1))).standard_normal(6)
    found = keyed_normal(torch.zeros(2, 3), 5, 2, 1)
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.from_numpy(expected).float().view(2, 3))


def test_a_number_and_an_empty_vector_get_noise_of_their_shape():
    for like in (torch.zeros(()), torch.zeros(0)):
        assert keyed_normal(like, 0, 1, 0).shape == secure_normal(like).shape == like.shape
