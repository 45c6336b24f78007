"""How the uploads of a round become one: their mean, or a rule that a minority of attackers cannot move far.

    mean                the weighted mean
    median              the median of each coordinate: Yin et al. 2018, arXiv:1803.01498
    trimmed-mean        of each coordinate, without its largest and smallest values: Yin et al. 2018
    krum                the upload that is nearest to its neighbours: Blanchard et al. 2017, arXiv:1703.02757
    multi-krum          the mean of several such uploads: Blanchard et al. 2017
    geometric-median    the point with the least sum of distances: Pillutla et al. 2022, arXiv:1912.13445
    norm-bound          the mean of uploads that are scaled down to a norm: Sun et al. 2019, arXiv:1911.07963

Every rule but the mean needs all uploads of a round at once: the one exception to "the server only sees means".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from driftless.algorithm import Upload
from driftless.engine.robust_means import (
    bounded_mean,
    geometric_median,
    median,
    multi_krum,
    trimmed_mean,
    weighted_mean,
)
from driftless.engine.sums import UploadRows
from driftless.engine.tree import map_leaves
from driftless.errors import InputError, check_choice, check_range, check_type, check_whole

RULES = ("mean", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "norm-bound")
OPTIONS = {
    "trimmed-mean": ("trim",),
    "krum": ("attackers",),
    "multi-krum": ("attackers", "keep"),
    "norm-bound": ("bound",),
}
"""Of the rules that have any; the options of another rule have no effect."""


class Aggregated(NamedTuple):
    mean: Upload
    """What `Algorithm.update` gets."""
    row: dict[str, float]
    """Numbers about it, for the history."""


@dataclass(frozen=True)
class Aggregation:
    """How the uploads of a round become one (docs/defences.md).

    Attributes:
        rule: "mean" (default), "median", "trimmed-mean", "krum", "multi-krum", "geometric-median" or "norm-bound".
        trim: How many of the largest, and of the smallest, values of each coordinate the trimmed mean leaves out: a
            number of clients, or a fraction of those of the round, rounded up, below 0.5. Default 0.1.
        attackers: Against how many Krum and multi-Krum defend, as a number or a fraction like `trim`. Default None: as
            many as a cohort of n clients permits, (n - 3) // 2.
        keep: Of how many uploads multi-Krum takes the mean. Default None: n - attackers - 2.
        bound: The norm to which "norm-bound" scales uploads down. Default None: the median of their norms in each
            round.

    Examples:
        >>> import driftless
        >>> rule = driftless.Aggregation("krum", attackers=0.3)
        >>> print(rule)
        krum (attackers=0.3)
        >>> federation = driftless.load("digits", clients=20, seed=0)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=10, aggregation=rule)
        >>> rule.too_few(8)
        'krum against 3 attackers needs at least 9 clients, not 8'
    """

    rule: str = "mean"
    trim: int | float = 0.1
    attackers: int | float | None = None
    keep: int | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        check_choice("server.aggregation", self.rule, RULES)
        object.__setattr__(self, "trim", as_share("server.aggregation_trim", self.trim))
        if self.attackers is not None:
            object.__setattr__(self, "attackers", as_share("server.aggregation_attackers", self.attackers))
        object.__setattr__(self, "keep", check_whole("server.aggregation_keep", self.keep, 1, other=None))
        if self.bound is not None:
            check_range("server.aggregation_bound", self.bound, 0, math.inf, low_open=True, high_open=True)

    @property
    def needs_all_uploads(self) -> bool:
        """Then it cannot be used with secure aggregation, which shows the server nothing but a sum."""
        return self.rule != "mean"

    def too_few(self, n: int) -> str:
        """What the rule needs, if a round of n clients is too small for it; else an empty text."""
        if self.rule == "trimmed-mean" and n <= 2 * (trim := number_of(self.trim, n)):
            return (
                f"trimmed-mean leaves out the {trim} largest and the {trim} smallest values of {n} clients, "
                "and nothing remains"
            )
        if self.rule in ("krum", "multi-krum"):
            attackers = self._attackers(n)
            if n < 2 * attackers + 3:
                return f"{self.rule} against {attackers} attackers needs at least {2 * attackers + 3} clients, not {n}"
            if self.rule == "multi-krum" and self.keep is not None and self.keep > n:
                return f"multi-krum keeps the uploads of {self.keep} clients, and there are {n}"
        return ""

    def check_cohorts(self, sizes: Iterable[int]) -> None:
        """Raise if a cohort of one of these sizes is too small."""
        for n in sorted(set(sizes)):
            if complaint := self.too_few(n):
                option = OPTIONS[self.rule][-1 if "keeps" in complaint else 0]
                raise InputError(
                    f"server.aggregation: {complaint}; use a larger cohort or a smaller server.aggregation_{option}."
                )

    def of(self, rows: UploadRows, uniform: frozenset[str]) -> Aggregated:
        """`rows` have one client or more, and enough for the rule; fields in `uniform` ignore the weights."""
        uploads, weights, n = rows.uploads, rows.weights, len(rows.weights)
        if self.rule == "median":
            return Aggregated(median(uploads), {})
        if self.rule == "trimmed-mean":
            return Aggregated(trimmed_mean(uploads, weights, uniform, number_of(self.trim, n)), {})
        if self.rule in ("krum", "multi-krum"):
            return Aggregated(multi_krum(uploads, weights, uniform, self._attackers(n), self._keep(n)), {})
        if self.rule == "geometric-median":
            return Aggregated(geometric_median(uploads, weights, uniform), {})
        if self.rule == "norm-bound":
            mean, bound, share = bounded_mean(uploads, weights, uniform, self.bound)
            return Aggregated(mean, {"norm_bound": bound, "bounded": share})
        return Aggregated(weighted_mean(uploads, weights, uniform), {})

    def __str__(self) -> str:
        """ "krum (attackers=0.3)": the rule, and those of its options that are set."""
        values = {name: getattr(self, name) for name in OPTIONS.get(self.rule, ())}
        said = ", ".join(f"{name}={value:g}" for name, value in values.items() if value is not None)
        return f"{self.rule} ({said})" if said else self.rule

    def _attackers(self, n: int) -> int:
        return max(0, (n - 3) // 2) if self.attackers is None else number_of(self.attackers, n)

    def _keep(self, n: int) -> int:
        if self.rule == "krum":
            return 1
        return n - self._attackers(n) - 2 if self.keep is None else self.keep


def as_aggregation(given: object) -> Aggregation:
    """A rule's name is short for an Aggregation with its usual options."""
    make = "write aggregation='median' or aggregation=driftless.Aggregation('krum', attackers=0.3)"
    check_type("aggregation", given, str | Aggregation | None, "a rule's name or a driftless.Aggregation", make)
    if isinstance(given, Aggregation):
        return given
    return Aggregation() if given is None else Aggregation(str(given))


def joined(blocks: Iterable[UploadRows], arrived: Tensor) -> UploadRows:
    """The rows of all blocks, in their order, without clients that are left out."""
    parts = tuple(blocks)
    rows = parts[0] if len(parts) == 1 else map_leaves(lambda *of_blocks: torch.cat(of_blocks), *parts)
    return rows if bool(arrived.all()) else map_leaves(lambda leaf: leaf[arrived], rows)


def number_of(share: int | float, n: int) -> int:
    """A number of clients, or a fraction of n of them, rounded up: in decimals, so that 0.07 of 100 is 7."""
    return share if isinstance(share, int) else math.ceil(Decimal(repr(share)) * n)


def as_share(name: str, value: int | float) -> int | float:
    """A number of clients (int >= 0) or a fraction of them (float in [0, 0.5)), as a Python int or float."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return check_whole(name, value, 0)
    check_range(name, value, 0, 0.5, high_open=True)
    return float(value)
