"""From the name of a data set to a Federation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import numpy as np
import torch

from driftless.data.array_checks import Ints
from driftless.data.datasets import DATASETS, DataSource
from driftless.data.examples import Examples
from driftless.data.federation import Federation
from driftless.data.held_out import held_out_number, hold_out
from driftless.data.inputs import select
from driftless.data.memory import fitting
from driftless.data.partition import PARTITIONS, Partition, check_options
from driftless.errors import LARGEST_SEED, InputError, check_type, check_whole, unknown
from driftless.random import stream

DEFAULT_CLIENTS = 100
REMEDY = "use fewer clients or examples where the data set has such options, or a machine with more memory"


def load(
    name: str,
    *,
    clients: int | None = None,
    partition: str | None = None,
    seed: int = 0,
    validation: int | float = 0,
    **options: object,
) -> Federation:
    """The data set `name`, divided among `clients` by `partition`; `validation` clients of these are held out.

    By default 100 clients and "iid", or one client per user ("natural") where the data have users. The further
    options are those of the data set and of the partition: `driftless list datasets` and `driftless list partitions`.
    """
    check_type("data", name, str, "the name of a data set", "see driftless list datasets")
    check_type("partition", partition, str | None, "the name of a partition", "see driftless list partitions")
    if name not in DATASETS:
        raise unknown("data set", str(name), DATASETS)
    source = DATASETS[name]
    check_whole("seed", seed, 0, most=LARGEST_SEED)
    if clients is not None:
        check_whole("clients", clients, 1)
    if source.has_clients:
        if partition is not None:
            raise InputError(
                f"data set '{name}' already comes as clients, so partition='{partition}' cannot be applied; "
                "leave partition out."
            )
        _check_names(f"data set '{name}'", options, source.options)
        number = {} if clients is None else {"clients": clients}
        with fitting(f"the data of '{name}'", REMEDY):
            federation = source.load(seed=seed, **number, **options)
        assert isinstance(federation, Federation)
    else:
        partition = partition_used(name, partition)
        assert partition is not None
        rule, arguments = _checked_partition(name, source, partition, clients, validation, options)
        with fitting(f"the data of '{name}'", REMEDY):
            examples = source.load(**{key: options[key] for key in source.options if key in options})
            assert isinstance(examples, Examples)
            federation = _divide(name, examples, rule, arguments, seed)
    return hold_out(federation, validation, seed)


def partition_used(name: str, partition: str | None) -> str | None:
    """The partition of this data set: the one that is asked for, or by default; None if the data come as clients."""
    source = DATASETS[name]
    if partition is not None or source.has_clients:
        return partition
    return "natural" if "users" in source.provides else "iid"


def clients_used(name: str, partition: str | None) -> int | None:
    """The number of clients where none is asked for; None if that depends on the data."""
    if DATASETS[name].has_clients:
        return inspect.signature(DATASETS[name].load).parameters["clients"].default
    used = partition_used(name, partition)
    return DEFAULT_CLIENTS if used in PARTITIONS and "clients" in PARTITIONS[used].needs else None


def _checked_partition(
    name: str,
    source: DataSource,
    partition: str,
    clients: int | None,
    validation: int | float,
    options: Mapping[str, object],
) -> tuple[Partition, dict[str, object]]:
    """The partition and the number of clients with its other options; all checks that need no data."""
    if partition not in PARTITIONS:
        raise unknown("partition", str(partition), PARTITIONS)
    rule = PARTITIONS[partition]
    _check_names(f"data set '{name}' / partition '{partition}'", options, {**source.options, **rule.options})
    chosen = {key: options.get(key, parameter.default) for key, parameter in rule.options.items()}
    for key, value in chosen.items():
        if value is inspect.Parameter.empty:
            raise InputError(f"partition '{partition}' needs {key}; give it, for example {key}=0.3.")
    check_options(partition, **chosen)
    for need, meaning in (("users", "the user of each example"), ("coarse", "coarse labels")):
        if need in rule.needs and need not in source.provides:
            having = ", ".join(other for other, candidate in DATASETS.items() if need in candidate.provides)
            raise InputError(
                f"partition '{partition}' needs {meaning}, and data set '{name}' has none; use a data set that does "
                f"({having})."
            )
    if "clients" in rule.needs:
        clients = DEFAULT_CLIENTS if clients is None else clients
        held_out_number(validation, clients)  # for its checks
        return rule, {"clients": clients, **chosen}
    if clients is not None:
        raise InputError(
            f"partition '{partition}' makes one client per user, so clients={clients} has no use; omit it."
        )
    return rule, chosen


def _divide(name: str, examples: Examples, rule: Partition, arguments: Mapping[str, object], seed: int) -> Federation:
    supply = {
        "n": len(examples.targets),
        "labels": examples.targets.numpy(),
        "coarse": examples.coarse,
        "users": examples.users,
        "rng": stream(seed, "partition"),
    }
    result = rule.assign(**{key: supply[key] for key in rule.needs if key in supply}, **arguments)
    assignment, names = result if isinstance(result, tuple) else (result, None)
    clients = int(assignment.max()) + 1
    return Federation.from_assignment(
        examples.inputs,
        examples.targets,
        assignment,
        clients,
        test=examples.test,
        classes=examples.classes,
        client_test=_client_test(examples, assignment, clients) if names else None,
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


def _check_names(kind: str, given: Mapping[str, object], allowed: Mapping[str, inspect.Parameter]) -> None:
    for key in given:
        if key not in allowed:
            raise unknown(f"option of {kind}", key, [*allowed, "clients", "partition", "seed", "validation"])
