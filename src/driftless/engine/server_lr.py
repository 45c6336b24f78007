"""The server learning rate of a round: scaled to the cohort and warmed up (large-cohort paper, section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftless.algorithm import Algorithm, base_server_lr
from driftless.errors import InputError, check_choice, check_whole


@dataclass(frozen=True)
class ServerSchedule:
    """server_lr' = r(M / reference_cohort) * server_lr with r = none (1), sqrt or linear, for a cohort of M clients.

    Over the first `warmup_rounds` = W rounds it rises: warmup_from = "zero": server_lr' * min(1, t/W);
    "base": server_lr + (server_lr' - server_lr) * min(1, t/W).
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
        return self.lr_scaling == "none" and self.warmup_rounds == 0

    def server_lr(self, base: float, t: int, cohort: int) -> float:
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
