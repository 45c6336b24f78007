"""User-level differential privacy for every algorithm whose server uses means of uploads. See docs/privacy.md."""

from driftless.privacy.accounting import Sampling, epsilon, noise_for
from driftless.privacy.mechanism import DifferentialPrivacy

__all__ = ["DifferentialPrivacy", "Sampling", "epsilon", "noise_for"]
