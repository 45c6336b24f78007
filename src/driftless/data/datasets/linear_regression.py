"""Linear regression y = <w_i, z> + noise, one federation for each setting of how much the clients differ.

With the loss 1/(2 n_i) |X_i x - y_i|^2 and a linear model without bias, the optimum is known exactly: `optimum`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.inputs import described
from driftless.data.memory import check_memory
from driftless.data.partition import apportion
from driftless.errors import InputError, check_choice, check_range, check_whole
from driftless.random import stream


def load(
    clients: int = 20,
    dimension: int = 10,
    examples: int = 50,
    unbalanced: float = 0.0,
    noise: float = 0.1,
    heterogeneity: float = 1.0,
    covariance: float = 0.0,
    seed: int = 0,
) -> Federation:
    """`examples` per client on average.

    unbalanced: standard deviation of the logarithm of the clients' sizes; 0 = all equal.
    heterogeneity: the true weights are w_i = (w + heterogeneity * N(0, I)) / sqrt(dimension); 0 = all equal.
    covariance: feature j of client i has the standard deviation exp(covariance * N(0, 1)); 0 = all 1.
    """
    for name, value in (("clients", clients), ("dimension", dimension), ("examples", examples)):
        check_whole(name, value, 1)
    check_range("unbalanced", unbalanced, 0, 10)  # an exponent: exp(10) is the largest useful ratio
    check_range("covariance", covariance, 0, 10)
    check_range("noise", noise, 0, 1000)
    check_range("heterogeneity", heterogeneity, 0, 1000)
    # at its largest: the inputs, and a factor for each of them
    needed = 3 * 8 * clients * dimension * examples
    check_memory(needed, f"{clients * examples} examples", "use fewer clients or examples, or a smaller dimension")
    rng = stream(seed, "linear-regression")
    logs = unbalanced * rng.standard_normal(clients)
    sizes = apportion(np.exp(logs - logs.max()), clients * examples)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    deviations = np.exp(covariance * rng.standard_normal((clients, dimension)))
    weights = rng.standard_normal(dimension) + heterogeneity * rng.standard_normal((clients, dimension))
    weights /= np.sqrt(dimension)  # so that the targets have the scale of one, whatever the dimension
    inputs = rng.standard_normal((offsets[-1], dimension)) * np.repeat(deviations, sizes, axis=0)
    targets = (inputs * np.repeat(weights, sizes, axis=0)).sum(axis=1) + noise * rng.standard_normal(len(inputs))
    return Federation(torch.from_numpy(inputs), torch.from_numpy(targets), offsets, name="linear-regression")


def optimum(federation: Federation, weighting: str = "uniform") -> Tensor:
    """The exact minimiser of a federation that is a linear regression, by the normal equations.

    It minimises the weighted mean of the clients' 1/(2 n_i) |X_i x - y_i|^2. Where the minimiser is not unique, it is
    the one of least norm.

    Args:
        federation: "quadratics", "linear-regression", or any with float inputs [n, d] and float targets [n].
        weighting: "uniform" (default), every client counts the same; or "examples", in proportion to its examples.

    Returns:
        The minimiser, [d].

    Examples:
        >>> import driftless
        >>> federation = driftless.load("linear-regression", clients=5, dimension=3, seed=0)
        >>> driftless.data.optimum(federation).shape
        torch.Size([3])
    """
    check_choice("weighting", weighting, ("uniform", "examples"))
    inputs, targets = federation.inputs, federation.targets
    is_regression = federation.classes is None and targets.ndim == 1
    if not is_regression or not isinstance(inputs, Tensor) or not inputs.is_floating_point() or inputs.ndim != 2:
        raise InputError(
            f"optimum needs a linear regression (float inputs [n, d], float targets [n]), got {federation!r} with "
            f"inputs {described(inputs, 0)} and targets {list(targets.shape)}; load 'quadratics' or "
            "'linear-regression'."
        )
    rows = np.repeat(1 / federation.sizes, federation.sizes) if weighting == "uniform" else np.ones(len(targets))
    weighted = inputs * torch.from_numpy(rows).to(inputs.dtype)[:, None]
    # gelsd: also for a singular matrix, and the solution of least norm
    return torch.linalg.lstsq(weighted.T @ inputs, weighted.T @ targets[:, None], driver="gelsd").solution[:, 0]
