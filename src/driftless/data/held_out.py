"""What is kept from training: whole clients for validation, or a share of every client's examples for its own test."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import torch

from driftless.data.array_checks import Ints
from driftless.data.cohorts import as_size, number_of_clients
from driftless.data.inputs import select
from driftless.errors import InputError, check_range
from driftless.random import stream

if TYPE_CHECKING:
    from driftless.data.federation import Federation


def hold_out(federation: Federation, clients: int | float, seed: int) -> Federation:
    """Move randomly chosen clients into `validation`, where they are judged and never trained.

    Args:
        federation: A federation that holds out no clients yet.
        clients: A number of clients, or a fraction of all; 0 for none.
        seed: Decides which.

    Returns:
        A federation of the other clients, with these as its `validation`.

    Examples:
        >>> import driftless
        >>> from driftless.data import hold_out
        >>> federation = hold_out(driftless.load("digits", clients=10), 0.2, seed=0)
        >>> federation.clients, federation.validation.clients
        (8, 2)
    """
    number = held_out_number(clients, federation.clients)
    if number == 0:
        return federation
    if federation.validation is not None:
        raise InputError(
            f"federation '{federation.name}' already holds out {federation.validation.clients} validation clients; "
            "hold out once, with the total number."
        )
    order = stream(seed, "validation").permutation(federation.clients)
    held = federation.select(np.sort(order[:number]))
    return replace(federation.select(np.sort(order[number:])), validation=replace(held, test=None))


def held_out_number(clients: int | float, total: int) -> int:
    """How many of `total` clients are held out; separate from `hold_out`, so that it can be checked before any work."""
    if isinstance(clients, Real) and not isinstance(clients, bool) and clients == 0:
        return 0
    number = number_of_clients(as_size("validation", clients), total)
    if number >= total:
        raise InputError(
            f"holding out {number} of {total} clients leaves none to train on; hold out at most {total - 1}."
        )
    return number


def check_share(client_test: float) -> None:
    check_range("client_test, the share of examples kept for a client's own test,", client_test, 0, 1, high_open=True)


def keep_for_test(federation: Federation, share: float, seed: int) -> Federation:
    """Move this share of every client's examples (rounded), drawn at random, into `.client_test`.

    A client keeps at least one example to train on. Examples stay in their order.
    """
    check_share(share)
    if share == 0:
        return federation
    if federation.client_test is not None:
        raise InputError(
            f"federation '{federation.name}' already has test data of each client, so client_test={share} has no use; "
            "leave it out."
        )
    numbers = np.minimum(np.floor(share * federation.sizes + 0.5).astype(np.int64), np.maximum(federation.sizes - 1, 0))
    if not numbers.any():
        raise InputError(
            f"client_test={share} leaves no client an example for its test (the largest client has "
            f"{federation.sizes.max()}); use a larger share."
        )
    owner = np.repeat(np.arange(federation.clients), federation.sizes)
    drawn = np.lexsort((stream(seed, "client-test").random(len(owner)), owner))  # client by client, in random order
    rank = np.arange(len(owner)) - np.repeat(federation.offsets[:-1], federation.sizes)
    kept = np.zeros(len(owner), dtype=bool)
    kept[drawn[rank < numbers[owner]]] = True
    own_test = replace(_rows(federation, kept, numbers), test=None, validation=None, client_names=None)
    return replace(_rows(federation, ~kept, federation.sizes - numbers), client_test=own_test)


def _rows(federation: Federation, chosen: np.ndarray, sizes: Ints) -> Federation:
    """Only the chosen examples, of which client i has sizes[i]."""
    rows = torch.from_numpy(np.flatnonzero(chosen))
    return replace(
        federation,
        inputs=select(federation.inputs, rows),
        targets=federation.targets.index_select(0, rows),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
    )
