"""Which clients take part in a round: schedules of cohorts.

A schedule is a frozen dataclass; the cohort of round t (from 1) depends only on the seed, t and the number of clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from driftless.data.array_checks import Ints
from driftless.errors import InputError, check_range, check_whole, doing, unknown
from driftless.random import stream

FORMS = (
    "10 (clients), 0.1 (fraction), cyclic:10, doubling:10,50,200 (start, every, maximum), "
    "poisson:0.1 (probability of each client)"
)


@runtime_checkable
class Schedule(Protocol):
    """The interface of a cohort schedule; any class with these methods can be given to `simulate`.

    A class may also have an attribute `sampling`: "fixed" if each round draws as many clients anew, uniformly without
    replacement, "poisson" if each round takes each client by itself with the same probability, which is its attribute
    `probability`. `size` is the expected number then, and a cohort may be empty.

    Examples:
        >>> import numpy as np
        >>> import driftless
        >>> class Halves:
        ...     def size(self, t, clients):
        ...         return clients // 2
        ...     def clients(self, t, clients, seed):
        ...         return np.arange(clients // 2) * 2 + t % 2
        ...     def check(self, clients, rounds):
        ...         if clients % 2:
        ...             raise driftless.InputError("give an even number of clients.")
        >>> isinstance(Halves(), driftless.data.Schedule)
        True
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=Halves()).history["cohort"]
        [5]
    """

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t."""
        ...

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        ...

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if the cohort of a round up to `rounds` does not fit among so many clients."""
        ...


CohortFunction: TypeAlias = Callable[[int, int, np.random.Generator], Sequence[int] | Ints]
"""(round, number of clients, random numbers of this round) -> ids of the clients that take part."""
Cohort: TypeAlias = int | float | Schedule | Sequence[Sequence[int]] | CohortFunction


def as_size(name: str, size: int | float) -> int | float:
    """A number of clients (int >= 1) or a fraction of them (float in (0, 1]), as a Python int or float."""
    if not isinstance(size, (bool, np.bool_)):
        if isinstance(size, Integral) and size >= 1:
            return int(size)
        if isinstance(size, Real) and not isinstance(size, Integral) and 0 < size <= 1:
            return float(size)
    raise InputError(
        f"{name} must be a number of clients (an integer >= 1) or a fraction of them (a float in (0, 1]), "
        f"got {size!r}; for example {name}=10 or {name}=0.1."
    )


def number_of_clients(size: int | float, clients: int) -> int:
    """A fraction is rounded half up, in decimals: 0.29 of 50 is 14.5 and gives 15, though in binary it is less."""
    if isinstance(size, int):
        return size
    return max(1, int((Decimal(repr(size)) * clients).quantize(Decimal(1), ROUND_HALF_UP)))


def _check_fits(size: int, clients: int) -> None:
    if size > clients:
        raise InputError(
            f"a cohort of {size} clients is larger than the federation of {clients} clients; "
            f"use at most {clients}, or a fraction such as 0.1."
        )


@dataclass(frozen=True)
class Constant:
    """The same number of clients each round, uniformly without replacement.

    Attributes:
        number: A number of clients, or a fraction of them, rounded half up; at least one.

    Examples:
        >>> from driftless.data import Constant
        >>> Constant(0.1).size(t=1, clients=50), len(Constant(5).clients(t=1, clients=50, seed=0))
        (5, 5)
    """

    number: int | float
    sampling: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", as_size("cohort", self.number))

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t."""
        return number_of_clients(self.number, clients)

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        return draw(t, clients, self.size(t, clients), seed)

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if the cohort is larger than the federation."""
        _check_fits(self.size(1, clients), clients)


@dataclass(frozen=True)
class Poisson:
    """Each client takes part with the same probability, independently of all others: a cohort may be empty.

    Attributes:
        probability: In (0, 1].

    Examples:
        >>> from driftless.data.cohorts import Poisson
        >>> Poisson(0.1).size(t=1, clients=50)  # the expected number
        5
    """

    probability: float
    sampling: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        check_range("probability of a poisson cohort", self.probability, 0, 1, low_open=True)
        object.__setattr__(self, "probability", float(self.probability))

    def size(self, t: int, clients: int) -> int:
        """The expected number, rounded, at least 1."""
        return number_of_clients(self.probability, clients)

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """As many as a binomial distribution says, and then which: the same, at the cost of the cohort."""
        random = stream(seed, "cohort", t)
        number = random.binomial(clients, self.probability)
        return np.sort(random.choice(clients, number, replace=False, shuffle=False))

    def check(self, clients: int, rounds: int) -> None:
        """Any probability fits."""


@dataclass(frozen=True)
class Doubling:
    """`start` clients for `every` rounds, then twice as many every `every` rounds, up to `maximum` or all clients.

    Attributes:
        start: The clients of the first rounds.
        every: The rounds after which the number doubles.
        maximum: The largest number, at least `start`.

    Examples:
        >>> from driftless.data import Doubling
        >>> [Doubling(start=2, every=3, maximum=10).size(t, clients=50) for t in (1, 3, 4, 7, 10)]
        [2, 2, 4, 8, 10]
    """

    start: int
    every: int
    maximum: int

    def __post_init__(self) -> None:
        for name in ("start", "every", "maximum"):
            object.__setattr__(self, name, check_whole(f"{name} of a doubling cohort", getattr(self, name), 1))
        if self.maximum < self.start:
            raise InputError(
                f"a doubling cohort cannot grow from {self.start} to a maximum of {self.maximum} clients; "
                f"set maximum to at least {self.start}."
            )

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t."""
        doublings = min((t - 1) // self.every, 62)  # more doublings than any federation needs; bounds the power
        return min(self.start * 2**doublings, self.maximum, clients)

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        return draw(t, clients, self.size(t, clients), seed)

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if `start` is larger than the federation."""
        _check_fits(self.start, clients)


def draw(t: int, clients: int | Ints, size: int, seed: int) -> Ints:
    """Uniformly among so many clients, or among these.

    The cost is that of the cohort: numpy lists all clients only if more than a twentieth of them is drawn.
    """
    return np.sort(stream(seed, "cohort", t).choice(clients, size, replace=False, shuffle=False))


@lru_cache(maxsize=1)  # all rounds of a run: a round costs no more than its cohort
def _cycle(clients: int, seed: int) -> Ints:
    order = stream(seed, "cycle").permutation(clients)
    order.flags.writeable = False
    return order


@dataclass(frozen=True)
class Cyclic:
    """A fixed random order of the clients, cut in consecutive groups that take turns; the last one may be smaller.

    Attributes:
        number: The clients of a group, or the fraction of all that it is.

    Examples:
        >>> from driftless.data import Cyclic
        >>> schedule = Cyclic(4)
        >>> schedule.period(10), [schedule.size(t, clients=10) for t in (1, 2, 3, 4)]
        (3, [4, 4, 2, 4])
    """

    number: int | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", as_size("cyclic cohort", self.number))

    def period(self, clients: int) -> int:
        """The rounds after which the first group takes part again."""
        return math.ceil(clients / number_of_clients(self.number, clients))

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t."""
        group = self._group(t, clients)
        return group.stop - group.start

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        return np.sort(_cycle(clients, seed)[self._group(t, clients)])

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if a group is larger than the federation."""
        _check_fits(number_of_clients(self.number, clients), clients)

    def _group(self, t: int, clients: int) -> slice:
        number = number_of_clients(self.number, clients)
        start = (t - 1) % self.period(clients) * number
        return slice(start, min(start + number, clients))


@dataclass(frozen=True)
class Explicit:
    """Given cohorts: one list of client ids per round.

    Attributes:
        rounds: The cohorts of round 1, 2, ...; at least as many as there are rounds.

    Examples:
        >>> from driftless.data import Explicit
        >>> Explicit([[0, 3], [2, 1]]).clients(t=2, clients=4, seed=0)
        array([1, 2])
    """

    rounds: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        cohorts = tuple(_as_ids(t, cohort) for t, cohort in enumerate(self.rounds, start=1))
        object.__setattr__(self, "rounds", cohorts)

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t."""
        return len(self.rounds[t - 1])

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        return np.sort(np.array(self.rounds[t - 1], dtype=np.int64))

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if there are too few cohorts, or one names a client that does not exist."""
        if len(self.rounds) < rounds:
            raise InputError(
                f"{len(self.rounds)} explicit cohorts were given for {rounds} rounds; "
                "give one list of clients per round."
            )
        for t, cohort in enumerate(self.rounds[:rounds], start=1):
            _check_cohort(t, cohort, clients)


@dataclass(frozen=True)
class FromFunction:
    """Cohorts that a function of yours chooses; with the same arguments it must choose the same clients.

    Attributes:
        function: (round, number of clients, random numbers of this round) -> ids of the clients that take part.

    Examples:
        >>> from driftless.data import FromFunction
        >>> schedule = FromFunction(lambda t, clients, rng: rng.choice(clients, size=t, replace=False))
        >>> [len(schedule.clients(t, clients=10, seed=0)) for t in (1, 2, 3)]
        [1, 2, 3]
    """

    function: CohortFunction

    def size(self, t: int, clients: int) -> int:
        """The number of clients in the cohort of round t, with random numbers of seed 0."""
        return len(self.clients(t, clients, 0))

    def clients(self, t: int, clients: int, seed: int) -> Ints:
        """The ids of the cohort of round t, ascending."""
        with doing(f"asking {self._name} for the cohort of round {t}"):
            chosen = self.function(t, clients, stream(seed, "cohort", t))
        cohort = _as_ids(t, chosen)
        _check_cohort(t, cohort, clients)
        return np.sort(np.array(cohort, dtype=np.int64))

    def check(self, clients: int, rounds: int) -> None:
        """Raise InputError if the cohort of the first round does not fit; the others are checked when they come."""
        if not np.array_equal(self.clients(1, clients, 0), self.clients(1, clients, 0)):
            raise InputError(
                f"{self._name} chose two different cohorts for round 1 with the same arguments; let it depend on "
                "nothing else: take random numbers from its third argument."
            )

    @property
    def _name(self) -> str:
        return f"cohort '{getattr(self.function, '__name__', type(self.function).__name__)}'"


def _as_ids(t: int, cohort: Any) -> tuple[int, ...]:
    is_list = isinstance(cohort, (Sequence, np.ndarray)) and not isinstance(cohort, str)
    if not is_list or not all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in cohort):
        raise InputError(f"the cohort of round {t} is {cohort!r}; give a list of client numbers, such as [0, 3, 7].")
    return tuple(int(i) for i in cohort)


def _check_cohort(t: int, cohort: Sequence[int], clients: int) -> None:
    if not cohort:
        raise InputError(f"the cohort of round {t} is empty; name at least one client in each round.")
    unknown_ids = [i for i in cohort if not 0 <= i < clients]
    if unknown_ids:
        raise InputError(
            f"the cohort of round {t} names client {unknown_ids[0]}, but the {clients} clients are 0..{clients - 1}; "
            "use these numbers."
        )
    if len(set(cohort)) < len(cohort):
        twice = next(i for i in cohort if cohort.count(i) > 1)
        raise InputError(f"the cohort of round {t} names client {twice} more than once; name each client once.")


def as_schedule(cohort: Cohort) -> Schedule:
    """Make a schedule of what `simulate(cohort=...)` takes.

    Args:
        cohort: A number of clients, a fraction of them, a schedule, a list of client ids for each round, or a function
            (round, clients, rng) -> ids.

    Returns:
        The schedule: `Constant`, `Explicit`, `FromFunction`, or the one that was given.

    Examples:
        >>> from driftless.data import as_schedule
        >>> as_schedule(10)
        Constant(number=10)
        >>> as_schedule([[0, 1], [2]]).size(t=2, clients=3)
        1
    """
    if isinstance(cohort, Schedule):
        return cohort
    if isinstance(cohort, str):
        raise InputError(f"cohort is the text {cohort!r}; give a number, a fraction, a schedule or lists of clients.")
    if isinstance(cohort, (Sequence, np.ndarray)):
        return Explicit(cohort)  # pyright: ignore[reportArgumentType]
    if callable(cohort):
        return FromFunction(cohort)
    return Constant(cohort)


def known_sizes(schedule: Schedule, clients: int, rounds: int) -> set[int]:
    """Of the cohorts of a run, before it begins; a user's function is asked for the first round only."""
    known = 1 if isinstance(schedule, Constant | FromFunction) else rounds
    return {schedule.size(t, clients) for t in range(1, known + 1)}


def parse(text: str) -> Schedule:
    """A schedule from its text form on the command line: see FORMS."""
    kind, separator, arguments = text.strip().partition(":")
    if not separator:
        return Constant(_number(text, kind))
    numbers = [_number(text, argument) for argument in arguments.split(",")]
    if kind == "cyclic" and len(numbers) == 1:
        return Cyclic(numbers[0])
    if kind == "doubling" and len(numbers) == 3:
        start, every, maximum = numbers
        return Doubling(start, every, maximum)  # pyright: ignore[reportArgumentType]  # Doubling raises for floats
    if kind == "poisson" and len(numbers) == 1:
        return Poisson(numbers[0])
    if kind in ("cyclic", "doubling", "poisson"):
        raise InputError(f"cohort '{text}' has {len(numbers)} numbers; allowed forms: {FORMS}.")
    raise unknown("cohort schedule", kind, ["cyclic", "doubling", "poisson"])


def sampling_of(schedule: Schedule) -> str:
    """ "fixed", "poisson", or "" for a schedule that does not say how it draws."""
    return getattr(schedule, "sampling", "")


def planned_size(schedule: Schedule, clients: int, rounds: int) -> int | float:
    """The clients of a round: the expected number if it is random, the largest if rounds differ."""
    if sampling_of(schedule) == "poisson":
        return schedule.probability * clients  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(schedule, FromFunction):
        return schedule.size(1, clients)
    if sampling_of(schedule):
        return schedule.size(1, clients)
    return max(schedule.size(t, clients) for t in range(1, rounds + 1))


def typical_cohort(schedule: Schedule, clients: int, seed: int) -> Ints:
    """The first one that is not empty, for rules that need an example; client 0 if the first rounds have none."""
    cohorts = (schedule.clients(t, clients, seed) for t in range(1, 101))
    first = next(cohorts)
    if len(first) or sampling_of(schedule) != "poisson":
        return first
    return next((cohort for cohort in cohorts if len(cohort)), np.zeros(1, dtype=np.int64))


def _number(text: str, part: str) -> int | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(part)
    raise InputError(f"cohort '{text}' has '{part}' where a number is needed; allowed forms: {FORMS}.")
