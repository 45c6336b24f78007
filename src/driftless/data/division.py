"""A partition and its options, by name or as a user's function: checked before the data are read, then applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from driftless.data.array_checks import Ints, as_assignment
from driftless.data.examples import Examples
from driftless.data.partition import PARTITIONS, SUPPLIED, Partition, check_options, partitions_with
from driftless.errors import InputError, check_whole, doing, unknown
from driftless.random import stream

AnyPartition: TypeAlias = str | Callable[..., Any]
"""A name, or a function whose parameters are named as in SUPPLIED; its other parameters are options."""
DEFAULT_CLIENTS = 100
RESERVED = ("partition", "seed", "validation", "client_test")
"""Settings of a federation that cannot be options of a partition."""
MEANING = {"users": "the user of each example", "coarse": "coarse labels"}


class Division(NamedTuple):
    """A partition with all that it needs besides the data."""

    name: str
    rule: Partition
    arguments: Mapping[str, Any]
    """The number of clients, where the partition takes it, and its options."""

    @property
    def clients(self) -> int | None:
        return self.arguments.get("clients")


class Assigned(NamedTuple):
    owner: Ints
    """The client of each example."""
    clients: int
    names: tuple[str, ...] | None


def named_rule(partition: AnyPartition) -> tuple[str, Partition]:
    if isinstance(partition, str):
        if partition not in PARTITIONS:
            raise unknown("partition", partition, PARTITIONS)
        return partition, PARTITIONS[partition]
    name = getattr(partition, "__name__", type(partition).__name__)
    if not callable(partition):
        raise InputError(
            f"partition is {partition!r}; give the name of a partition (driftless list partitions), or a function such "
            "as f(labels, clients, rng)."
        )
    for parameter in inspect.signature(partition).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(
                f"partition '{name}' has the parameter '{parameter}'; its parameters must have names, of which "
                f"{', '.join(SUPPLIED)} are filled in and the others are options."
            )
        if parameter.name in RESERVED:
            raise InputError(
                f"partition '{name}' has the parameter '{parameter.name}', which is a setting of the federation; use "
                "another name, and `rng` for random numbers."
            )
    return name, Partition(partition, "")


def checked_division(
    partition: AnyPartition,
    clients: int | None,
    options: Mapping[str, Any],
    *,
    data: str,
    provides: Iterable[str],
    remedy: Callable[[str], str],
    other_options: Iterable[str] = (),
) -> Division:
    """All checks that need no data. `remedy(need)`: what to do if `data` do not provide what the partition needs.

    `other_options` are those of the data.
    """
    name, rule = named_rule(partition)
    for key in options:
        if key not in (allowed := [*rule.options, *other_options]):
            if having := partitions_with(key):
                raise InputError(
                    f"partition '{name}' has no {key}; it is an option of partition {' or '.join(having)}."
                )
            raise unknown(f"option of {data} / partition '{name}'", key, [*allowed, "clients", *RESERVED])
    chosen = {key: options.get(key, parameter.default) for key, parameter in rule.options.items()}
    for key, value in chosen.items():
        if value is inspect.Parameter.empty:
            raise InputError(f"partition '{name}' needs {key}; give it, for example {key}=0.3.")
    if isinstance(partition, str):
        check_options(name, **chosen)
    for need, meaning in MEANING.items():
        if need in rule.needs and need not in provides:
            raise InputError(f"partition '{name}' needs {meaning}, and {data} has none; {remedy(need)}.")
    if "clients" in rule.needs:
        number = DEFAULT_CLIENTS if clients is None else check_whole("clients", clients, 1)
        return Division(name, rule, {"clients": number, **chosen})
    if clients is not None:
        makes = "makes one client per user" if name == "natural" else "does not take the number of clients"
        raise InputError(f"partition '{name}' {makes}, so clients={clients} has no use; omit it.")
    return Division(name, rule, chosen)


def own_division(
    partition: AnyPartition, clients: int | None, options: Mapping[str, Any], user: Any, coarse: Any
) -> Division:
    """For a user's own data set: `user` and `coarse` are None if they were not given."""
    given = {need: value for need, value in (("users", user), ("coarse", coarse)) if value is not None}
    division = checked_division(
        partition, clients, options, data="the data set", provides=given,
        remedy=lambda need: f"give {need.removesuffix('s')}=, a column or one value for each example",
    )  # fmt: skip
    for need in given:
        if need not in division.rule.needs:
            raise InputError(
                f"{need.removesuffix('s')} was given, and partition '{division.name}' has no use for {MEANING[need]}; "
                f"leave it out, or use partition '{'natural' if need == 'users' else 'pachinko'}'."
            )
    return division


def assign(division: Division, examples: Examples, seed: int) -> Assigned:
    """The client of each example; what a user's function returns is checked."""
    name, rule, arguments = division
    supply = {
        "n": len(examples.targets),
        "labels": examples.targets.numpy(),
        "coarse": examples.coarse,
        "users": examples.users,
        "rng": stream(seed, "partition"),
    }
    with doing(f"calling partition '{name}'"):
        result: Any = rule.assign(**{key: supply[key] for key in rule.needs if key in supply}, **arguments)
    has_names = isinstance(result, tuple) and len(result) == 2 and not isinstance(result[0], (int, np.integer))
    owner, names = result if has_names else (result, None)
    try:
        owner, groups = as_assignment(owner, division.clients, len(examples.targets))
    except (InputError, TypeError) as error:
        raise InputError(
            f"partition '{name}' must return the client of each example: {len(examples.targets)} integers. {error}"
        ) from error
    clients = division.clients or len(groups or ())
    if names is not None and len(names) != clients:
        raise InputError(
            f"partition '{name}' names {len(names)} clients, and divides the examples among {clients}; name each once."
        )
    names = names or groups
    empty = np.flatnonzero(np.bincount(owner, minlength=clients) == 0)
    if len(empty):
        raise InputError(
            f"partition '{name}' gives client {empty[0]} no examples ({len(empty)} of {clients} clients are empty); "
            "give every client at least one."
        )
    return Assigned(owner, clients, names)
