"""What is given for each client, joined into one store of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from driftless.data.array_checks import (
    Ints,
    SeveralValues,
    Values,
    as_inputs,
    as_targets,
    check_alike,
    check_alike_inputs,
    check_pair,
    full_precision,
)
from driftless.data.constructors import advice
from driftless.data.inputs import Inputs, map_inputs, named_inputs, select, take
from driftless.data.memory import check_memory
from driftless.data.read_dataset import Roles, read_pair
from driftless.errors import InputError, check_type, unknown

Pair: TypeAlias = tuple[SeveralValues, Values]
"""Inputs and targets of a client, or of a test set."""


def joined(clients: Sequence[Pair | None], owner: str) -> tuple[Inputs, Tensor, Ints]:
    """All rows in the order of the clients, and their offsets; None is a client without rows."""
    given = [i for i, pair in enumerate(clients) if pair is not None]
    if not given:
        raise InputError("client_test is None for every client; leave it out.")

    # Two passes over the clients: with many small ones, a list of their tensors would take as much memory as the data.
    def pairs() -> Iterator[tuple[int, Inputs, Tensor]]:
        return ((i, *as_pair(clients[i], f"{owner} {i}")) for i in given)

    first, inputs, targets = next(pairs())
    like = take(inputs, slice(0)), targets[:0]
    sizes = np.zeros(len(clients), dtype=np.int64)
    for i, inputs, targets in pairs():
        check_alike_inputs(inputs, like[0], f"{owner} {i}", f"{owner} {first}")
        check_alike(targets, like[1], f"the targets of {owner} {i}", f"{owner} {first}")
        sizes[i] = len(targets)
        like = map_inputs(_promoted, like[0], inputs), _promoted(like[1], targets)
    offsets = offsets_of(sizes)

    def room(part: Tensor) -> Tensor:
        return part.new_empty(int(offsets[-1]), *part.shape[1:])

    all_inputs, all_targets = map_inputs(room, like[0]), room(like[1])
    for i, inputs, targets in pairs():
        rows = slice(offsets[i], offsets[i + 1])
        map_inputs(lambda whole, part, rows=rows: whole[rows].copy_(part), all_inputs, inputs)
        all_targets[rows] = targets
    return all_inputs, all_targets, offsets


def listed(clients: Any, names: Sequence[str] | None) -> tuple[Sequence[Any], Sequence[str] | None]:
    """The clients without their names, and the names, which are the keys of a dict."""
    if isinstance(clients, Mapping):
        if names is not None:
            raise InputError("the keys of a dict of clients are their names; leave client_names out, or give a list.")
        return list(clients.values()), tuple(map(str, clients))
    is_pair_of_all = isinstance(clients, tuple) and len(clients) == 2 and isinstance(clients[0], (Tensor, np.ndarray))
    if is_pair_of_all or not isinstance(clients, Sequence) or isinstance(clients, str):
        raise InputError(
            f"clients must be a list with an entry for each client, or a dict, got a {type(clients).__name__}; "
            f"{advice(clients)}."
        )
    return clients, names


def tests_of(client_test: Any, clients: Any) -> Sequence[Any]:
    """The test data in the order of the clients; in a dict by the clients' names, those without are left out."""
    if not isinstance(client_test, Mapping):
        remedy = "give [(inputs, targets), None, ...], or the share of every client's examples to keep for its test"
        check_type("client_test", client_test, Sequence, "a list with an entry for each client", remedy)
        return client_test
    known = list(clients) if isinstance(clients, Mapping) else []
    for name in client_test:
        if name not in known:
            raise unknown("client in client_test", str(name), map(str, known))
    return [client_test.get(name) for name in known]


def pairs_of(clients: Sequence[Any], roles: Roles, owner: str) -> list[Any]:
    """Each client as (inputs, targets), or None; data sets are read."""
    return [pair_of(given, roles, f"{owner} {i}") for i, given in enumerate(clients)]


def pair_of(given: Any, roles: Roles, owner: str) -> Any:
    if given is None or (isinstance(given, tuple) and len(given) == 2):
        return given
    if isinstance(given, list):
        kinds = {type(part) for part in given}
        if len(given) == 2 and kinds == {tuple}:
            raise InputError(
                f"{owner} is a list of two tuples: two examples, or inputs and targets? Give the latter as a tuple, "
                "the former as a torch data set."
            )
        if len(given) == 2 and not any(issubclass(kind, Mapping) for kind in kinds):
            return given
    elif not (isinstance(given, (Dataset, Mapping)) or hasattr(given, "column_names")):
        raise InputError(f"{owner} is not a pair; give (inputs, targets) or a data set, got a {type(given).__name__}.")
    return read_pair(given, roles, owner)


def as_pair(pair: Any, owner: str) -> tuple[Inputs, Tensor]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"{owner} is not a pair; give (inputs, targets).")
    inputs, targets = as_inputs(pair[0], owner), as_targets(pair[1], owner)
    check_pair(inputs, targets, owner)
    if len(targets) == 0:
        raise InputError(f"{owner} has no examples; leave it out or give it at least one.")
    return inputs, targets


def converted(inputs: Inputs, targets: Tensor, like: tuple[Inputs, Tensor], what: str) -> tuple[Inputs, Tensor]:
    """Test data in the types of the clients' data."""
    check_alike_inputs(inputs, like[0], what, "the clients")
    check_alike(targets, like[1], f"the targets of {what}", "the clients")
    same_type = map_inputs(lambda own, part: part.to(full_precision(own.dtype)), like[0], inputs)
    return same_type, targets.to(like[1].dtype)


def in_client_order(inputs: Inputs, targets: Tensor, owner: Ints) -> tuple[Inputs, Tensor]:
    """Rows sorted by their client: as they are if they are sorted already, else a copy, which must fit into memory."""
    if not (owner[1:] < owner[:-1]).any():
        return inputs, targets
    check_memory(
        sum(part.nbytes for part in (targets, *named_inputs(inputs).values())),
        "the examples, copied in the order of their clients,",
        "sort the files by client once, so that they can be used as they are",
    )
    order = torch.from_numpy(np.argsort(owner, kind="stable"))
    return select(inputs, order), targets.index_select(0, order)


def offsets_of(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)])


def _promoted(values: Tensor, other: Tensor) -> Tensor:
    """In a type that holds both."""
    return values if values.dtype == other.dtype else values.to(torch.promote_types(values.dtype, other.dtype))
