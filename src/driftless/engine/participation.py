"""Who takes part in a round, who is lost and why, and how long the round takes on real devices.

All of it is a function of the run's seed and the round, so that every rank works it out by itself and a run that is
resumed goes on as it would have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from driftless.data.cohorts import Constant, Doubling, Schedule, draw
from driftless.data.federation import Federation
from driftless.engine.fault_trace import NOBODY, Trace
from driftless.engine.faults import Faults
from driftless.engine.stragglers import Stragglers
from driftless.errors import InputError
from driftless.random import stream, streams

REASONS = {
    "dropout": "dropped out of the round, state kept as it was",
    "deadline": "missed the deadline of the round, state kept as it was",
    "surplus": "selected, but enough others were faster, state kept as it was",
    "unavailable": "not available in the round they were scheduled for, state kept as it was",
}
"""Why clients are lost, in the words of events."""
ANSWERLESS = ("dropout", "deadline", "surplus")
"""The reasons of clients that were sent the server's message."""

NEGLIGIBLE = 1e-12
"""Probabilities and spreads below it are those of 0, whose distribution is a point."""


class Participation(NamedTuple):
    """A round, as far as it is known before anyone trains."""

    cohort: np.ndarray
    """The clients that take part, ascending: the server gets their updates."""
    lost: Mapping[str, np.ndarray]
    """The others that were selected or scheduled, by reason."""
    time: float
    """Simulated, until the last update that is kept arrives or the server waits no longer."""
    available: int
    """The number of clients that could be selected."""

    @property
    def answerless(self) -> int:
        """The number of clients that were sent the server's message and whose update is not used."""
        return sum(len(self.lost[reason]) for reason in ANSWERLESS)

    @property
    def row(self) -> dict[str, float]:
        """The columns of a run with faults."""
        row: dict[str, float] = {"available": self.available, "selected": len(self.cohort) + self.answerless}
        return row | {f"lost_{reason}": len(clients) for reason, clients in self.lost.items()}


@dataclass(frozen=True)
class Selection:
    """Who takes part in each round of a run."""

    schedule: Schedule
    stragglers: Stragglers
    faults: Faults
    trace: Trace
    sizes: np.ndarray
    """The number of examples of each client."""
    seed: int

    def of_round(self, t: int) -> Participation:
        """Without faults: all of the schedule's clients, in the time of the slowest."""
        present = self._available(t)
        selected, wanted, absent = self._selected(t, present)
        times = self.stragglers.times(self.sizes[selected], self.seed, t)
        dropped = self._dropped_out(selected, t)
        deadline = math.inf if self.faults.deadline is None else self.faults.deadline
        by_time = np.argsort(times, kind="stable")
        first = by_time[(~dropped & (times <= deadline))[by_time]][:wanted]
        kept = np.zeros(len(selected), dtype=bool)
        kept[first] = True
        rest = selected[~kept & ~dropped]
        # A client that drops out is missed when it should have answered.
        enough = 0 < wanted == len(first)
        time = float(times[first[-1]]) if enough else min(deadline, float(times.max(initial=0.0)))
        lost = {
            "dropout": selected[dropped],
            "deadline": NOBODY if enough else rest,
            "surplus": rest if enough else NOBODY,
            "unavailable": absent,
        }
        return Participation(selected[kept], lost, time, len(self.sizes) if present is None else int(present.sum()))

    def _available(self, t: int) -> np.ndarray | None:
        """[clients], bool; None: all of them."""
        clients, away = len(self.sizes), self.trace.having(t, "unavailable")
        if self.faults.availability == "always" and not len(away):
            return None
        present = np.ones(clients, dtype=bool)
        if self.faults.availability != "always":
            present = stream(self.seed, "availability", t).random(clients) < availability(
                self.faults, t, clients, self.seed
            )
        present[away] = False
        return present

    def _selected(self, t: int, present: np.ndarray | None) -> tuple[np.ndarray, int, np.ndarray]:
        """Who gets the server's message, how many of them are wanted, and who was scheduled but is not available."""
        clients = len(self.sizes)
        if is_random(self.schedule):
            wanted = self.schedule.size(t, clients)
            number = over_selected(self.faults.over_selection, wanted)
            if present is None:
                return draw(t, clients, min(number, clients), self.seed), wanted, NOBODY
            among = np.flatnonzero(present)
            return draw(t, among, min(number, len(among)), self.seed), wanted, NOBODY
        scheduled = self.schedule.clients(t, clients, self.seed)
        if present is None:
            return scheduled, len(scheduled), NOBODY
        there = present[scheduled]
        return scheduled[there], int(there.sum()), scheduled[~there]

    def _dropped_out(self, selected: np.ndarray, t: int) -> np.ndarray:
        """[selected], bool. A client draws by itself, so that a higher rate loses the same clients and more."""
        dropped = np.isin(selected, self.trace.having(t, "dropout"))
        if self.faults.dropout != 0:
            rates = dropout_rates(self.faults, len(self.sizes), self.seed)[selected]
            draws = [rng.random() for rng in streams(self.seed, "client-dropout", t, selected.tolist())]
            dropped |= np.array(draws, dtype=float) < rates
        return dropped


def is_random(schedule: Schedule) -> bool:
    """Whether it draws a number of clients uniformly, hence can as well draw among those that are available."""
    return isinstance(schedule, Constant | Doubling)


def over_selected(factor: float, wanted: int) -> int:
    """ceil(factor * wanted), in decimals: 1.1 times 10 is 11, though in binary it is more."""
    return int((Decimal(repr(float(factor))) * wanted).to_integral_value(ROUND_CEILING))


def dropout_rates(faults: Faults, clients: int, seed: int) -> np.ndarray:
    """The probability of each client to drop out of a round."""
    if isinstance(faults.dropout, tuple):
        return np.array(faults.dropout)
    assert isinstance(faults.dropout, float)
    return rates_of_clients(faults.dropout, faults.dropout_spread, clients, seed, "dropout-rates")


def availability(faults: Faults, t: int, clients: int, seed: int) -> np.ndarray:
    """The probability of each client to be available in round t."""
    mean = faults.availability_mean
    if faults.availability == "client":
        return rates_of_clients(mean, faults.availability_spread, clients, seed, "availability-rates")
    time_of_day = (t - 1) / faults.availability_day + faults.availability_zones * time_zones(clients, seed)
    return mean + faults.availability_swing * min(mean, 1 - mean) * np.cos(2 * np.pi * time_of_day)


@lru_cache(maxsize=4)  # the same in all rounds of a run
def rates_of_clients(mean: float, spread: float, clients: int, seed: int, purpose: str) -> np.ndarray:
    """A probability for each client, of a Beta distribution with this mean and the variance spread*mean*(1-mean)."""
    if spread < NEGLIGIBLE or min(mean, 1 - mean) < NEGLIGIBLE:
        return np.full(clients, float(mean))
    total = 1 / spread - 1
    return stream(seed, purpose).beta(total * mean, total * (1 - mean), clients)


@lru_cache(maxsize=1)
def time_zones(clients: int, seed: int) -> np.ndarray:
    """Of each client, as a share of the day in [0, 1)."""
    return stream(seed, "time-zones").random(clients)


def check_faults(faults: Faults, schedule: Schedule, stragglers: Stragglers, federation: Federation) -> None:
    """Raise if the faults do not fit the run."""
    if faults.over_selection > 1 and not is_random(schedule):
        raise InputError(
            f"faults.over_selection={faults.over_selection} needs a cohort that is drawn at random (a number, a "
            "fraction or doubling:...), and this one names its clients; name more of them, or set over_selection=1."
        )
    if isinstance(faults.dropout, tuple) and len(faults.dropout) != federation.clients:
        raise InputError(
            f"faults.dropout has {len(faults.dropout)} rates, and there are {federation.clients} clients; give one "
            "number, or a rate for each client."
        )
    fastest = stragglers.alpha * int(federation.sizes.min())
    if faults.deadline is not None and faults.deadline < fastest:
        raise InputError(
            f"faults.deadline={faults.deadline:g} is shorter than the fastest client can be, run.straggler_alpha * its "
            f"examples = {fastest:g}, so nobody would ever arrive; give more time."
        )
    if faults.attack == "label-flip" and federation.classes is None:
        raise InputError(
            "faults.attack='label-flip' needs class labels, and the targets of these data are numbers; use another "
            "attack, such as sign-flip."
        )
