"""What can be seen of a federation without training: clients, cohorts, sizes, labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftless.data.cohorts import Cohort, as_schedule
from driftless.data.federation import Federation
from driftless.random import stream

Skew = Literal["alike", "some", "few", "unknown"]
ALIKE, FEW = 0.1, 0.45
"""Limits of the relative skew. Digits dealt to 100 clients by Dirichlet(alpha): 0.30 for alpha = 0.5, 0.62 for 0.05."""
SELDOM = 2.0
"""A client that takes part less often in a run hardly uses what it kept."""
UNEQUAL = 1.0
"""Standard deviation of the sizes over their mean."""
MOST_COHORTS = 200
"""That the mean size of a cohort is taken over."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Facts:
    """What is seen of a federation and a planned run.

    Attributes:
        clients: N, training clients.
        cohort: M, the mean number of clients of a round.
        rounds: Of the run that is planned.
        smallest: Examples of the smallest client.
        median: Of the examples of a client.
        largest: Examples of the largest client.
        spread: Standard deviation of the sizes over their mean.
        classes: Labels in all; None: regression.
        skew: Mean total variation distance between the labels of a client and all labels: 0 alike, near 1 apart. None
            without labels.
        skew_at_random: The same if the labels were dealt at random: clients with few examples differ by chance.

    Examples:
        >>> import driftless
        >>> from driftless.suggest import suggest
        >>> federation = driftless.load("digits", clients=100, partition="iid", seed=0)
        >>> facts = suggest(federation, rounds=60, cohort=10).facts
        >>> facts.clients, facts.returns, facts.labels
        (100, 6.0, 'alike')
    """

    clients: int
    cohort: float
    rounds: int
    smallest: int
    median: float
    largest: int
    spread: float
    classes: int | None
    skew: float | None
    skew_at_random: float | None

    @property
    def participation(self) -> float:
        """The share of clients that take part in a round."""
        return self.cohort / self.clients

    @property
    def returns(self) -> float:
        """How often a client takes part in the run, on average."""
        return self.rounds * self.participation

    @property
    def relative_skew(self) -> float | None:
        """The part of the possible distance beyond chance: 0 as dealt at random, 1 one label each."""
        if self.skew is None or self.skew_at_random is None:
            return None
        return max(0.0, self.skew - self.skew_at_random) / max(1 - self.skew_at_random, 1e-12)

    @property
    def labels(self) -> Skew:
        """How the labels of clients differ, in a word."""
        skew = self.relative_skew
        if skew is None:
            return "unknown"
        return "alike" if skew < ALIKE else "some" if skew < FEW else "few"

    @property
    def seldom(self) -> bool:
        """Whether most clients take part less than twice."""
        return self.returns < SELDOM

    @property
    def unequal(self) -> bool:
        """Whether sizes differ much."""
        return self.spread > UNEQUAL

    def as_json(self) -> dict[str, Any]:
        """Plain values, by name."""
        return {
            "clients": self.clients,
            "cohort": self.cohort,
            "participation": self.participation,
            "rounds": self.rounds,
            "returns": self.returns,
            "examples": {"smallest": self.smallest, "median": self.median, "largest": self.largest},
            "size_spread": self.spread,
            "classes": self.classes,
            "label_skew": self.skew,
            "label_skew_at_random": self.skew_at_random,
            "labels": self.labels,
        }


def facts_of(federation: Federation, cohort: Cohort, rounds: int) -> Facts:
    sizes = federation.sizes
    measured = label_skew(federation)
    return Facts(
        federation.clients,
        mean_cohort(cohort, federation.clients, rounds),
        rounds,
        int(sizes.min()),
        float(np.median(sizes)),
        int(sizes.max()),
        float(sizes.std() / sizes.mean()),
        federation.classes,
        *(measured or (None, None)),
    )


def mean_cohort(cohort: Cohort, clients: int, rounds: int) -> float:
    schedule = as_schedule(cohort)
    schedule.check(clients, rounds)
    seen = range(1, rounds + 1, max(1, rounds // MOST_COHORTS))
    return float(np.mean([schedule.size(t, clients) for t in seen]))


def label_skew(federation: Federation) -> tuple[float, float] | None:
    """Measured, and as it would be if the labels were dealt at random; None for data without labels."""
    if federation.classes is None:
        return None
    labels = federation.targets.reshape(len(federation.targets), -1).numpy()  # a sequence has several
    owners = np.repeat(np.arange(federation.clients), np.diff(federation.offsets)).repeat(labels.shape[1])
    flat = labels.reshape(-1)
    known = flat >= 0  # others are padding
    owners, flat = owners[known], flat[known]
    shuffled = stream(0, "label skew").permutation(flat)
    return mean_distance(owners, flat), mean_distance(owners, shuffled)


def mean_distance(owners: Ints, labels: Ints) -> float:
    """Over clients, the total variation distance between a client's labels and all labels. Only pairs that occur are
    stored: a table of all clients and all words may not fit in memory."""
    values, codes = np.unique(labels, return_inverse=True)
    overall = np.bincount(codes) / len(codes)
    pairs, counts = np.unique(owners.astype(np.int64) * len(values) + codes, return_counts=True)
    who, which = pairs // len(values), pairs % len(values)
    share = counts / np.bincount(owners)[who]
    # Half of the sum of |share - overall| is the sum of the positive parts, which are among the labels that occur.
    return float(np.maximum(share - overall[which], 0).sum() / len(np.unique(who)))
