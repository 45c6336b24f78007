"""Standard normal numbers: keyed, for simulations that can be repeated, or from the operating system, for deployment.

Keyed noise protects nobody from those who know the seed: they can draw it again and subtract it. Secure noise cannot
be drawn again. Both are floating-point numbers, whose gaps can tell what was added to them (Mironov, On Significance of
the Least Significant Bits for Differential Privacy, CCS 2012); a secure number is half the sum of four, which makes
the attack much harder (Holohan, Braghin, Secure Random Sampling in Differential Privacy, ESORICS 2021), not impossible.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from driftless.random import stream

SOURCES = ("keyed", "secure")
SUMMED = 4
"""Independent numbers that are added up for one secure number."""


def keyed_normal(like: Tensor, seed: int, t: int, field: int) -> Tensor:
    """For one field of the upload in round t: the same on every machine and device."""
    return as_tensor(stream(seed, "privacy", t, field).standard_normal(like.numel()), like)


def secure_normal(like: Tensor) -> Tensor:
    total = sum(normal_from_bytes(os.urandom(8 * like.numel())) for _ in range(SUMMED))
    return as_tensor(np.asarray(total) / SUMMED**0.5, like)


def normal_from_bytes(random: bytes) -> NDArray[np.float64]:
    """One number from 8 bytes: the inverse of the distribution function at the middle of one of 2^52 intervals.

    A double holds these middles exactly; with a bit more the last one would be rounded to 1, whose inverse is infinite.
    """
    words = np.frombuffer(random, dtype="<u8") >> np.uint64(12)
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-52
    return torch.special.ndtri(torch.from_numpy(uniform)).numpy()


def as_tensor(values: NDArray[np.float64], like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like).view(like.shape)
