"""From the name of a data set to a Federation."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from driftless.data.array_checks import Ints
from driftless.data.datasets import DATASETS
from driftless.data.division import DEFAULT_CLIENTS, RESERVED, AnyPartition, Division, assign, checked_division
from driftless.data.examples import Examples
from driftless.data.federation import Federation
from driftless.data.held_out import check_share, held_out_number, hold_out, keep_for_test
from driftless.data.inputs import select
from driftless.data.memory import fitting
from driftless.data.partition import DEFAULT_OPTIONS, PARTITIONS
from driftless.data.read_dataset import Roles, read_examples
from driftless.errors import LARGEST_SEED, InputError, check_type, check_whole, unknown

REMEDY = "use fewer clients or examples where the data set has such options, or a machine with more memory"


def load(
    name: str,
    *,
    clients: int | None = None,
    partition: AnyPartition | None = None,
    seed: int = 0,
    validation: int | float = 0,
    client_test: float = 0,
    **options: object,
) -> Federation:
    """Load a data set by its name and divide it among clients.

    Args:
        name: A name of `driftless list datasets`, such as "digits".
        clients: The number of clients. None: 100; where the data have users one client for each, and where the clients
            are part of the problem ("quadratics", "linear-regression") what the data set has.
        partition: A name of `driftless list partitions`, or a function (docs/data.md). None: "natural" (one client per
            user) where the data have users, else "dirichlet" with alpha=0.1.
        seed: Decides what is drawn: the partition, held-out clients, kept test examples, synthetic data.
        validation: Clients that are held out, a number or a fraction of all: never trained on. Default 0.
        client_test: The share of every client's examples that is kept for its own test, in [0, 1). Default 0.
        **options: The options of the data set and of the partition, such as `alpha`.

    Returns:
        The federation.

    Raises:
        InputError: When a name, a value or an option is not known or does not fit, or files are missing.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=20, partition="dirichlet", alpha=0.3, validation=4, seed=0)
        >>> federation.clients, federation.validation.clients
        (16, 4)
    """
    check_type("data", name, str, "the name of a data set", "see driftless list datasets")
    if name not in DATASETS:
        raise unknown("data set", str(name), DATASETS)
    source = DATASETS[name]
    check_whole("seed", seed, 0, most=LARGEST_SEED)
    check_share(client_test)
    if clients is not None:
        check_whole("clients", clients, 1)
    if source.has_clients:
        if partition is not None:
            raise InputError(
                f"data set '{name}' already comes as clients, so partition {partition!r} cannot be applied; "
                "leave partition out."
            )
        for key in options:
            if key not in source.options:
                raise unknown(f"option of data set '{name}'", key, [*source.options, "clients", *RESERVED])
        number = {} if clients is None else {"clients": clients}
        with fitting(f"the data of '{name}'", REMEDY):
            federation = source.load(seed=seed, **number, **options)
        assert isinstance(federation, Federation)
    else:
        if partition is None:
            partition = partition_used(name, None)
            assert partition is not None
            options = {**DEFAULT_OPTIONS.get(partition, {}), **options}
        division = checked_division(
            partition, clients, options, data=f"data set '{name}'", provides=source.provides, remedy=_other_data_sets,
            other_options=source.options,
        )  # fmt: skip
        if division.clients is not None:
            held_out_number(validation, division.clients)  # for its checks
        with fitting(f"the data of '{name}'", REMEDY):
            examples = source.load(**{key: options[key] for key in source.options if key in options})
            assert isinstance(examples, Examples)
            federation = _divide(name, examples, division, seed)
    return hold_out(keep_for_test(federation, client_test, seed), validation, seed)


def as_federation(
    data: Any,
    *,
    clients: int | None = None,
    partition: AnyPartition | None = None,
    seed: int = 0,
    validation: int | float = 0,
    client_test: float = 0,
    name: str = "federation",
    **options: object,
) -> Federation:
    """A user's data as a federation: one already, or Examples or a data set (`Federation.from_dataset`) to be divided.

    `clients` is None for a federation, whose clients are given.
    """
    if isinstance(data, Federation):
        given = {"partition": partition, "clients": clients, **options}
        for key, value in given.items():
            if value is not None:
                raise InputError(f"'{name}' already comes as clients, so {key}={value!r} has no use; leave it out.")
        return hold_out(keep_for_test(data, client_test, seed), validation, seed)
    if not isinstance(data, Examples):
        data = read_examples(data, Roles())
    provides = [need for need, value in (("users", data.users), ("coarse", data.coarse)) if value is not None]
    labels = data.targets.dim() == 1 and not data.targets.is_floating_point()
    if partition is None:
        partition = "natural" if "users" in provides else "dirichlet" if labels else "iid"
        options = {**DEFAULT_OPTIONS.get(partition, {}), **options}
    division = checked_division(
        partition, clients, options, data=f"'{name}'", provides=provides,
        remedy=lambda need: f"return driftless.Examples(..., {need}=...)",
    )  # fmt: skip
    if division.clients is not None:
        held_out_number(validation, division.clients)  # for its checks
    return hold_out(keep_for_test(_divide(name, data, division, seed), client_test, seed), validation, seed)


def partition_used(name: str, partition: str | None) -> str | None:
    """The partition of this data set: the one that is asked for, or by default; None if the data come as clients."""
    source = DATASETS[name]
    if partition is not None or source.has_clients:
        return partition
    return "natural" if "users" in source.provides else "dirichlet"


def clients_used(name: str, partition: str | None) -> int | None:
    """The number of clients where none is asked for; None if that depends on the data."""
    if DATASETS[name].has_clients:
        return inspect.signature(DATASETS[name].load).parameters["clients"].default
    used = partition_used(name, partition)
    return DEFAULT_CLIENTS if used in PARTITIONS and "clients" in PARTITIONS[used].needs else None


def _other_data_sets(need: str) -> str:
    having = ", ".join(name for name, source in DATASETS.items() if need in source.provides)
    return f"use a data set that does ({having})"


def _divide(name: str, examples: Examples, division: Division, seed: int) -> Federation:
    owner, clients, names = assign(division, examples, seed)
    by_user = division.rule is PARTITIONS["natural"]
    return Federation.from_assignment(
        examples.inputs,
        examples.targets,
        owner,
        clients,
        test=examples.test,
        classes=examples.classes,
        client_test=_client_test(examples, owner, clients) if by_user else None,
        name=name,
        client_names=names,
    )


def _client_test(examples: Examples, assignment: Ints, clients: int) -> Federation | None:
    """The test examples of each user's client; those of users who have no training data belong to nobody."""
    if examples.test is None or examples.users is None or examples.test_users is None:
        return None
    client_of = dict(zip(examples.users, assignment.tolist(), strict=True))
    owner = np.array([client_of.get(user, -1) for user in examples.test_users], dtype=np.int64)
    rows = torch.from_numpy(np.flatnonzero(owner >= 0))
    inputs, targets = select(examples.test[0], rows), examples.test[1].index_select(0, rows)
    return Federation.from_assignment(
        inputs, targets, owner[owner >= 0], clients, classes=examples.classes, allow_empty=True
    )
