"""Epsilon of a run, by the accountants of dp-accounting, and the noise for a wanted epsilon.

`noise_multiplier` z is the standard deviation of the noise in the SUM of the clipped uploads, divided by the clipping
norm S. Which pairs of federations epsilon compares depends on how cohorts are drawn:

    poisson   one client added or removed: the sum changes by at most S
    fixed     one client replaced by another, N is public: the sum changes by at most 2 S. dp-accounting wants the noise
              relative to that change (RdpAccountant, sampling without replacement), hence z/2
    other     one client's uploads replaced by zeros: the sum changes by at most S in every round, without amplification

Amplification needs that a cohort is drawn independently of all that clients remember: see DifferentialPrivacy.sampling.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from driftless.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ACCOUNTANTS = ("rdp", "pld")
FIXED_ORDERS = tuple(range(2, 65))
"""Renyi orders for sampling without replacement: between whole orders the bound is an interpolation, which costs more
than it gains."""
PLD_INTERVAL = 1e-3
"""Of the discretised privacy loss: ten times coarser than the default of dp-accounting, and ten times faster; epsilon
is larger by less than 0.001."""
PLD_POINTS = 20
"""Rounds of a run at which the PLD accountant is asked; a composition takes about a tenth of a second."""
LEAST_NOISE = 0.05
NEIGHBOURS = {
    "poisson": "a client added or removed",
    "fixed": "a client replaced",
    "": "a client's uploads replaced by zeros, no amplification by sampling",
}


@dataclass(frozen=True)
class Sampling:
    """How the cohorts of a run are drawn, which decides how much sampling protects.

    Attributes:
        kind: "poisson", "fixed" (without replacement), or "" for any other way, which is not counted on.
        clients: N, the number of clients.
        cohort: The fixed or expected number of clients of a round.

    Examples:
        >>> from driftless.privacy import Sampling
        >>> Sampling("poisson", clients=1000, cohort=50)
        Sampling(kind='poisson', clients=1000, cohort=50)
    """

    kind: str
    clients: int
    cohort: float


def default_delta(clients: int) -> float:
    """N^-1.1, as McMahan et al. 2018: less than the chance of naming one client at random."""
    return clients**-1.1


def epsilon(noise_multiplier: float, delta: float, rounds: int, sampling: Sampling, accountant: str = "rdp") -> float:
    """Epsilon of the first rounds of a run. Needs `pip install driftless[privacy]`.

    Args:
        noise_multiplier: The standard deviation of the noise in the sum of the uploads, relative to the clipping norm;
            0 gives infinity.
        delta: In (0, 1).
        rounds: The number of rounds.
        sampling: How cohorts are drawn.
        accountant: "rdp" (default), or "pld", which is tighter, slower, and not for "fixed" cohorts.

    Returns:
        Epsilon.

    Examples:
        >>> from driftless.privacy import Sampling, epsilon
        >>> round(epsilon(1.0, 1e-4, 100, Sampling("poisson", 1000, 50)), 2)
        3.39
    """
    if rounds == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    if accountant == "pld":
        return pld_epsilon(noise_multiplier, delta, rounds, sampling)
    orders, divergences = divergences_of_a_round(noise_multiplier, sampling)
    with quiet():
        return float(library().rdp.compute_epsilon(orders, rounds * divergences, delta)[0])


def epsilon_so_far(
    noise_multiplier: float, delta: float, t: int, rounds: int, sampling: Sampling, accountant: str
) -> float:
    """Epsilon after round t of a run; by PLD that of the next of PLD_POINTS rounds, which is not smaller."""
    every = math.ceil(rounds / PLD_POINTS) if accountant == "pld" else 1
    return epsilon(noise_multiplier, delta, max(t, min(rounds, math.ceil(t / every) * every)), sampling, accountant)


@lru_cache(maxsize=64)
def noise_for(target_epsilon: float, delta: float, rounds: int, sampling: Sampling, accountant: str = "rdp") -> float:
    """The smallest noise multiplier, to 0.0001, whose epsilon is at most the target.

    Args:
        target_epsilon: The epsilon after all rounds.
        delta: In (0, 1).
        rounds: The number of rounds.
        sampling: How cohorts are drawn.
        accountant: "rdp" (default) or "pld".

    Returns:
        The noise multiplier.

    Raises:
        InputError: When the target needs less noise than a multiplier of 0.05.

    Examples:
        >>> from driftless.privacy import Sampling, noise_for
        >>> round(noise_for(8.0, 1e-4, 100, Sampling("poisson", 1000, 50)), 2)
        0.69
    """
    dp = library()
    if epsilon(LEAST_NOISE, delta, rounds, sampling) <= target_epsilon:
        raise InputError(
            f"target_epsilon={target_epsilon:g} needs less noise than a multiplier of {LEAST_NOISE}, which protects "
            "nobody; set a smaller target_epsilon, or noise_multiplier itself."
        )
    interval = dp.LowerEndpointAndGuess(LEAST_NOISE, 1.0)
    if accountant == "pld":  # its epsilon is smaller than that by RDP, and takes longer the larger it is
        enough = noise_for(target_epsilon, delta, rounds, sampling)
        interval = dp.ExplicitBracketInterval(enough / 3, enough)
    with quiet():
        return float(
            dp.calibrate_dp_mechanism(
                lambda: accountant_of(sampling, accountant),
                lambda z: dp.SelfComposedDpEvent(event(z, sampling), rounds),
                target_epsilon, delta, interval, tol=1e-4,
            )
        )  # fmt: skip


def check_supported(sampling: Sampling, accountant: str) -> None:
    if accountant == "pld" and sampling.kind == "fixed":
        raise InputError(
            "accountant=pld does not know cohorts of a fixed size drawn without replacement (dp-accounting 0.6.0 has "
            "no privacy loss distribution for them); set accountant=rdp, or draw cohorts with cohort=poisson:0.1."
        )


def event(noise_multiplier: float, sampling: Sampling) -> Any:
    """One round, as dp-accounting describes it."""
    dp = library()
    if sampling.kind == "fixed":
        gaussian = dp.GaussianDpEvent(noise_multiplier / 2)
        return dp.SampledWithoutReplacementDpEvent(sampling.clients, int(sampling.cohort), gaussian)
    gaussian = dp.GaussianDpEvent(noise_multiplier)
    if sampling.kind == "poisson" and sampling.cohort < sampling.clients:
        return dp.PoissonSampledDpEvent(sampling.cohort / sampling.clients, gaussian)
    return gaussian


def accountant_of(sampling: Sampling, accountant: str) -> Any:
    dp = library()
    if accountant == "pld":
        return dp.pld.PLDAccountant(value_discretization_interval=PLD_INTERVAL)
    if sampling.kind == "fixed":
        return dp.rdp.RdpAccountant(FIXED_ORDERS, dp.NeighboringRelation.REPLACE_ONE)
    return dp.rdp.RdpAccountant()


@lru_cache(maxsize=64)
def divergences_of_a_round(
    noise_multiplier: float, sampling: Sampling
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Renyi orders and divergences: those of t rounds are t times as large, so every row of a run costs nothing."""
    with quiet():
        accountant = accountant_of(sampling, "rdp").compose(event(noise_multiplier, sampling))
    return accountant.orders, accountant.rdp


@lru_cache(maxsize=1024)
def pld_epsilon(noise_multiplier: float, delta: float, rounds: int, sampling: Sampling) -> float:
    check_supported(sampling, "pld")
    with quiet():
        accountant = accountant_of(sampling, "pld").compose(event(noise_multiplier, sampling), rounds)
        return float(accountant.get_epsilon(delta))


def library() -> ModuleType:
    try:
        for part in ("pld", "rdp"):
            import_module(f"dp_accounting.{part}")
        return import_module("dp_accounting")
    except ImportError:
        raise InputError(
            "epsilon is computed by the package dp-accounting, which is not installed; "
            "install it with: pip install driftless[privacy]"
        ) from None


@contextmanager
def quiet() -> Generator[None]:
    """dp-accounting warns of Renyi orders that it leaves out, which makes epsilon larger, never smaller."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
