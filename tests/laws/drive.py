"""The calls that the laws of methods look at, for tests that look at something else in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from driftless import Algorithm
from driftless.testing.calls import calls, mean

__all__ = ["drive", "mean"]


def drive(algorithm: Algorithm, dtype: torch.dtype, call: Callable[..., Any]) -> None:
    """Give `call` the name and the arguments of every method that makes or takes a state."""
    for made in calls(algorithm, dtype):
        if made.method != "diagnostics":
            call(made.method, *made.arguments)
