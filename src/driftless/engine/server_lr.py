"""The server learning rate of a round: scaled to the cohort and warmed up (large-cohort paper, section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftless.algorithm import Algorithm, base_server_lr
from driftless.errors import InputError, check_choice, check_whole


@dataclass(frozen=True)
class ServerSchedule:
    """How the server learning rate follows the size of the cohort and the round.

    For an algorithm that has a `server_lr`. For a cohort of M clients, server_lr' = r(M / reference_cohort) *
    server_lr. By default it is constant.

    Attributes:
        lr_scaling: r: "none" (default, 1), "sqrt" or "linear".
        reference_cohort: The cohort size that server_lr was tuned for, at least 1; needed with "sqrt" and "linear".
            Default None.
        warmup_rounds: W, the first rounds, over which it rises. Default 0: no warm-up.
        warmup_from: From where it rises: "zero" (default), server_lr' * min(1, t/W); or "base", server_lr + (server_lr'
            - server_lr) * min(1, t/W).

    Examples:
        >>> import driftless
        >>> schedule = driftless.ServerSchedule(lr_scaling="sqrt", reference_cohort=10, warmup_rounds=4)
        >>> [schedule.server_lr(1.0, t, cohort=40) for t in (1, 2, 4, 5)]
        [0.5, 1.0, 2.0, 2.0]
    """

    lr_scaling: str = "none"
    reference_cohort: int | None = None
    warmup_rounds: int = 0
    warmup_from: str = "zero"

    def __post_init__(self) -> None:
        check_choice("server.lr_scaling", self.lr_scaling, ("none", "sqrt", "linear"))
        check_choice("server.warmup_from", self.warmup_from, ("zero", "base"))
        if self.lr_scaling != "none" and self.reference_cohort is None:
            raise InputError(
                f"server.lr_scaling={self.lr_scaling!r} needs server.reference_cohort, the cohort size that server_lr "
                "was tuned for; set it, e.g. server.reference_cohort=10."
            )
        check_whole("server.reference_cohort", self.reference_cohort, 1, other=None)
        check_whole("server.warmup_rounds", self.warmup_rounds, 0)

    @property
    def is_constant(self) -> bool:
        """Whether the server learning rate stays as the algorithm has it."""
        return self.lr_scaling == "none" and self.warmup_rounds == 0

    def server_lr(self, base: float, t: int, cohort: int) -> float:
        """The server learning rate of a round.

        Args:
            base: The algorithm's own `server_lr`.
            t: The round, from 1.
            cohort: The clients of the round.
        """
        scaled = base * self._ratio(cohort)
        if self.warmup_rounds == 0:
            return scaled
        progress = min(1.0, t / self.warmup_rounds)
        return scaled * progress if self.warmup_from == "zero" else base + (scaled - base) * progress

    def _ratio(self, cohort: int) -> float:
        if self.lr_scaling == "none" or self.reference_cohort is None:
            return 1.0
        ratio = cohort / self.reference_cohort
        return math.sqrt(ratio) if self.lr_scaling == "sqrt" else ratio

    def apply(self, algorithm: Algorithm, t: int, cohort: int) -> Algorithm:
        """The algorithm as it is in round t."""
        if self.is_constant:
            return algorithm
        return algorithm.with_server_lr(self.server_lr(base_server_lr(algorithm), t, cohort))
