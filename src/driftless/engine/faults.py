"""What goes wrong in a simulated federation, as settings; participation.py and attacks.py carry it out."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftless.errors import InputError, check_choice, check_range, check_type

AVAILABILITY = ("always", "client", "diurnal")
ATTACKS = ("none", "nan", "scale", "sign-flip", "label-flip")
DEFAULT_SCALE = {"scale": 10.0, "sign-flip": 1.0}
MOST_SELECTED = 1e6
LARGEST_SCALE = 1e30


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a simulated federation; by default nothing does.

    Everything is drawn from the run's seed. See docs/faults.md.

    Attributes:
        dropout: The probability p that a selected client drops out of a round, in [0, 1); or a list with one for each
            client. Default 0.
        dropout_spread: s in [0, 1): each client has a rate of its own, with the mean p and the variance `s*p*(1-p)`.
            Default 0: all have the same.
        deadline: A client that takes longer, in the units of `simulated_time`, comes too late. Default None: no
            deadline.
        over_selection: f, at least 1: ceil(f * M) clients are selected where M are wanted, and the first M by simulated
            time are kept. Default 1.
        availability: Who can be selected: "always" (default) everyone; "client" each client with a probability of its
            own; "diurnal": the probability rises and falls with the time of day.
        availability_mean: The mean probability to be available, in (0, 1]. Default 0.5.
        availability_spread: With "client", the spread of the clients' probabilities, as `dropout_spread`. Default 0.5.
        availability_swing: With "diurnal", how far the probability m rises and falls, as a share of min(m, 1-m).
            Default 0.8.
        availability_day: With "diurnal", the rounds of a day. Default 24.
        availability_zones: With "diurnal", the share of a day over which the beginnings of the clients' days are
            spread. Default 1.
        trace: A .csv or .jsonl file of clients that drop out or are not available, round by round. Default None.
        attack: What attackers send: "none" (default), "nan", "scale" (their upload times `attack_scale`), "sign-flip"
            (times -`attack_scale`), or "label-flip": they train on wrong labels.
        attackers: The fraction of the clients that attack, the same ones in all rounds; needed with an attack. Default
            None.
        attack_scale: The factor of "scale" and "sign-flip". Default None: 10 for "scale", 1 for "sign-flip".

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=20, seed=0)
        >>> faults = driftless.Faults(dropout=0.5, attack="sign-flip", attackers=0.1)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=3, cohort=10, faults=faults)
        >>> [took_part + lost for took_part, lost in zip(result.history["cohort"], result.history["lost_dropout"])]
        [10, 10, 10]
    """

    dropout: float | Sequence[float] = 0.0
    dropout_spread: float = 0.0
    deadline: float | None = None
    over_selection: float = 1.0
    availability: str = "always"
    availability_mean: float = 0.5
    availability_spread: float = 0.5
    availability_swing: float = 0.8
    availability_day: float = 24.0
    availability_zones: float = 1.0
    trace: str | os.PathLike[str] | None = None
    attack: str = "none"
    attackers: float | None = None
    attack_scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dropout", checked_dropout(self.dropout))
        check_range("faults.dropout_spread", self.dropout_spread, 0, 1, high_open=True)
        if isinstance(self.dropout, tuple) and self.dropout_spread:
            raise InputError(
                "faults.dropout has a rate for each client and faults.dropout_spread would draw them; give one of both."
            )
        if self.deadline is not None:
            check_range("faults.deadline", self.deadline, 0, math.inf, low_open=True, high_open=True)
        check_range("faults.over_selection", self.over_selection, 1, MOST_SELECTED)
        check_choice("faults.availability", self.availability, AVAILABILITY)
        check_range("faults.availability_mean", self.availability_mean, 0, 1, low_open=True)
        check_range("faults.availability_spread", self.availability_spread, 0, 1, high_open=True)
        check_range("faults.availability_swing", self.availability_swing, 0, 1)
        check_range("faults.availability_day", self.availability_day, 1, 1e9)
        check_range("faults.availability_zones", self.availability_zones, 0, 1)
        remedy = "write a .csv or .jsonl file, see docs/faults.md"
        check_type("faults.trace", self.trace, str | os.PathLike | None, "the path of a file", remedy)
        object.__setattr__(self, "trace", None if self.trace is None else os.fspath(self.trace))
        self._check_attack()

    def _check_attack(self) -> None:
        check_choice("faults.attack", self.attack, ATTACKS)
        if self.attackers is not None:
            check_range("faults.attackers", self.attackers, 0, 1)
        if self.attack_scale is not None:
            check_range("faults.attack_scale", self.attack_scale, 0, LARGEST_SCALE)
        if self.attack != "none" and self.attackers is None:
            raise InputError(
                f"faults.attack={self.attack!r} needs faults.attackers, the fraction of the clients that attack; set "
                "it, e.g. faults.attackers=0.1."
            )
        if self.attack == "none" and self.attackers:
            raise InputError(
                f"faults.attackers={self.attackers} needs faults.attack, what they do: one of "
                f"{', '.join(ATTACKS[1:])}; for a run without attackers set faults.attackers=0."
            )

    @property
    def lose_clients(self) -> bool:
        """Whether not everyone whom the schedule names takes part."""
        selects = self.over_selection > 1 or self.deadline is not None or self.availability != "always"
        return selects or self.trace is not None or self.dropout != 0

    @property
    def scale(self) -> float:
        """Of an attack that has one."""
        return DEFAULT_SCALE.get(self.attack, 1.0) if self.attack_scale is None else float(self.attack_scale)


def checked_dropout(dropout: object) -> float | tuple[float, ...]:
    """One probability, or a tuple of them."""
    if isinstance(dropout, np.ndarray):
        dropout = dropout.tolist()
    if not isinstance(dropout, (list, tuple)):
        check_range("faults.dropout", dropout, 0, 1, high_open=True)  # pyright: ignore[reportArgumentType]
        return float(dropout)  # pyright: ignore[reportArgumentType]
    for client, rate in enumerate(dropout):
        check_range(f"faults.dropout of client {client}", rate, 0, 1)
    return tuple(float(rate) for rate in dropout)
