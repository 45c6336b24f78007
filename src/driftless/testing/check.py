"""`check_algorithm`: all laws in one call; `check_equal`: two algorithms have the same trajectories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from driftless.algorithm import Algorithm
from driftless.errors import InputError, check_choice, doing, unknown
from driftless.simulate import as_algorithm
from driftless.testing.method_laws import METHOD_LAWS
from driftless.testing.run_laws import RUN_LAWS, TOLERANCE, first_difference

MOST = 5
"""Sentences that are shown of one law."""


class LawBroken(AssertionError):
    """An algorithm breaks laws.

    Args:
        algorithm: The one that breaks them.
        broken: By the name of each law, the sentences that say where and what to do.
        unchecked: Laws that could not be checked, and why.

    Attributes:
        broken: As given.
        unchecked: As given.

    Examples:
        >>> from dataclasses import dataclass
        >>> import driftless
        >>> @dataclass(frozen=True)
        ... class Mine(driftless.algorithms.FedAvg):
        ...     def upload(self, y, local, msg, client, r):
        ...         return driftless.Delta(msg.x - y), client
        >>> try:
        ...     driftless.testing.LAWS["x_and_delta"](Mine())
        ... except driftless.testing.LawBroken as error:
        ...     print(list(error.broken))
        ['x_and_delta']
    """

    def __init__(self, algorithm: Algorithm, broken: Mapping[str, list[str]], unchecked: Mapping[str, str]) -> None:
        self.broken = dict(broken)
        self.unchecked = dict(unchecked)
        lines = [f"{type(algorithm).__name__} breaks {counted(len(broken), 'law')}."]
        for name, sentences in broken.items():
            lines += ["", f"{name}: {LAWS[name].statement}", *(f"  - {sentence}" for sentence in sentences[:MOST])]
            if len(sentences) > MOST:
                lines.append(f"  - ... and {len(sentences) - MOST} more")
        if unchecked:
            lines += ["", f"Not checked, because of the above: {', '.join(unchecked)}"]
            lines += [f"  - {why}" for why in dict.fromkeys(unchecked.values())]
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Law:
    """A law that every algorithm obeys. Called with an algorithm, it raises LawBroken if that one does not.

    Attributes:
        sentences_about: A function that yields sentences about what breaks the law.

    Examples:
        >>> import driftless
        >>> law = driftless.testing.LAWS["x_and_delta"]
        >>> law(driftless.algorithms.FedAvg())
        >>> law.name
        'x_and_delta'
    """

    sentences_about: Callable[[Algorithm], Iterator[str]]

    @property
    def name(self) -> str:
        """Its key in LAWS."""
        return self.sentences_about.__name__

    @property
    def statement(self) -> str:
        """What must hold."""
        return " ".join((inspect.getdoc(self.sentences_about) or "").split())

    def __call__(self, algorithm: Algorithm) -> None:
        broken, error = self.look(algorithm)
        if broken:
            raise LawBroken(algorithm, {self.name: broken}, {}) from error
        if error:
            raise error

    def look(self, algorithm: Algorithm) -> tuple[list[str], Exception | None]:
        """What breaks the law, each sentence once; and the error of the algorithm's own code that ended the look."""
        found: dict[str, None] = {}
        try:
            # An algorithm that draws from torch's global generator must not change the caller's.
            with torch.random.fork_rng(()), doing(f"checking the law {self.name}"):
                for sentence in self.sentences_about(algorithm):
                    found[sentence] = None
        except Exception as error:
            return list(found), error
        return list(found), None


LAWS: dict[str, Law] = {find.__name__: Law(find) for find in (*METHOD_LAWS, *RUN_LAWS)}
"""By name, in the order in which they are checked."""
OF_METHODS = {find.__name__ for find in METHOD_LAWS}


def check_algorithm(algorithm: Algorithm | type[Algorithm], *, without: Iterable[str] = ()) -> None:
    """Raise LawBroken, which lists every law that the algorithm breaks, if it breaks any.

    An error in the algorithm's own code is raised as it is. The whole takes some seconds.

    Args:
        algorithm: An instance, or a class whose hyper-parameters all have defaults.
        without: Names of laws that it is not meant to obey, such as "x_and_delta" if it compresses what it uploads.

    Examples:
        >>> from dataclasses import dataclass
        >>> import driftless
        >>> @dataclass(frozen=True)
        ... class Mine(driftless.algorithms.FedAvg):
        ...     def upload(self, y, local, msg, client, r):
        ...         return driftless.Delta(msg.x - y), client
        >>> driftless.testing.check_algorithm(Mine())
        Traceback (most recent call last):
        driftless.testing.check.LawBroken: Mine breaks 1 law.
        ...
          - `upload` returned `delta` = x - y, the wrong sign: return `y - msg.x`.
    """
    algorithm = as_instance(algorithm)
    left_out = {without} if isinstance(without, str) else set(without)
    for name in sorted(left_out - LAWS.keys()):
        raise unknown("law", name, LAWS)
    broken: dict[str, list[str]] = {}
    errors: dict[str, Exception] = {}
    for laws in (METHOD_LAWS, RUN_LAWS):
        for law in (LAWS[find.__name__] for find in laws if find.__name__ not in left_out):
            found, error = law.look(algorithm)
            if found:
                broken[law.name] = found
            elif error:
                errors[law.name] = error
        if errors and not broken:
            raise next(iter(errors.values()))
    if broken:
        # An error in a run follows from what is broken; one in a method alone may be the algorithm's own.
        cause = next((error for name, error in errors.items() if name in OF_METHODS), None)
        raise LawBroken(algorithm, broken, {name: first_line(error) for name, error in errors.items()}) from cause


def check_equal(
    one: Algorithm | str, other: Algorithm | str, *, weighting: str | None = None, tolerance: float = TOLERANCE
) -> None:
    """Raise AssertionError unless both have the same models in every round, on the problems of the laws.

    Args:
        one: An algorithm, or the name of one of ours.
        other: The same.
        weighting: Both average by "examples", or both "uniform"; None: each as it does by default.
        tolerance: The largest difference of a number of a model or of the mean of the client models.

    Examples:
        >>> from driftless.algorithms import FedProx
        >>> from driftless.testing import check_equal
        >>> check_equal(FedProx(mu=0.0), "fedavg", weighting="uniform")
    """
    check_choice("weighting", weighting, (None, "examples", "uniform"))
    one, other = as_algorithm(one), as_algorithm(other)
    off = first_difference(one, other, weighting, tolerance)
    if off:
        hint = ""
        if weighting is None and one.weighting != other.weighting:
            hint = f" They average by {one.weighting!r} and {other.weighting!r}: give weighting= to compare the rest."
        raise AssertionError(f"{one} and {other} are not equal: {off}.{hint}")


def as_instance(algorithm: object) -> Algorithm:
    if isinstance(algorithm, Algorithm):
        return algorithm
    if isinstance(algorithm, type) and issubclass(algorithm, Algorithm):
        try:
            return algorithm()
        except TypeError as error:
            raise InputError(
                f"{algorithm.__name__} cannot be made without arguments ({error}); give an instance with its "
                "hyper-parameters, or write all abstract methods."
            ) from error
    raise InputError(
        f"algorithm must be an instance or a subclass of driftless.Algorithm, got {algorithm!r}; "
        "give one such as driftless.algorithms.FedAvg()."
    )


def first_line(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
