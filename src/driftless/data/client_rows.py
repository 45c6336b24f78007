"""The data that are given for each client, joined into one store of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from driftless.data.array_checks import (
    Ints,
    SeveralValues,
    Values,
    as_inputs,
    as_targets,
    check_alike,
    check_alike_inputs,
    check_pair,
)
from driftless.data.inputs import Inputs, map_inputs, take
from driftless.errors import InputError

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


def as_pair(pair: object, owner: str) -> tuple[Inputs, Tensor]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"{owner} is not a pair; give (inputs, targets).")
    inputs, targets = as_inputs(pair[0], owner), as_targets(pair[1], owner)
    check_pair(inputs, targets, owner)
    if len(targets) == 0:
        raise InputError(f"{owner} has no examples; leave it out or give it at least one.")
    return inputs, targets


def offsets_of(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)])


def _promoted(values: Tensor, other: Tensor) -> Tensor:
    """In a type that holds both."""
    return values if values.dtype == other.dtype else values.to(torch.promote_types(values.dtype, other.dtype))
