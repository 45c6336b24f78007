"""Everything that changes from round to round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Server, Vector
from driftless.engine.clients import ClientStore
from driftless.engine.tree import map_leaves


@dataclass(frozen=True)
class State:
    """A run continues from it as if it had never stopped."""

    algorithm: Algorithm
    """Whose state it is."""
    round: int
    server: Server
    clients: ClientStore
    aggregate: Vector
    models: LastModels | None
    lost: int = 0
    """Rounds lost in a row."""
    accuracies: Mapping[str, float] = field(default_factory=dict)
    """On training data, by column, as far as the last round measured them: the next one's `failure` compares."""
    noticed: frozenset[str] = frozenset()
    """What was said once and is not said again."""

    def copy(self) -> State:
        models = None if self.models is None else self.models.copy()
        return replace(self, clients=self.clients.copy(), models=models)

    def on(self, device: torch.device) -> State:
        """The server's tensors on this device; those of clients are in main memory anyway."""
        server = map_leaves(lambda leaf: leaf.to(device), self.server)
        return replace(self, server=server, aggregate=self.aggregate.to(device))


class LastModels:
    """The mean over all clients' last models, x^0 for those never sampled: FedDyn's "all" inference model."""

    def __init__(self, x: Vector, clients: int, store: ClientStore) -> None:
        self._x0 = x
        self._clients = clients
        self.store = store
        self.moved = torch.zeros_like(x, dtype=torch.float64, device="cpu")
        """Sum over clients of (last model - x^0), in main memory: not every accelerator has double precision."""

    def put(self, clients: list[int], models: Tensor) -> None:
        before = self.store.get(clients, (self._x0,))[0]
        self.store.put(clients, (models,))
        after = self.store.get(clients, (self._x0,))[0]  # as stored: what is taken off again later
        self.moved = self.moved + (after.cpu().double() - before.cpu().double()).sum(0)

    def mean(self) -> Vector:
        return self._x0 + (self.moved / self._clients).to(self._x0)

    def copy(self) -> LastModels:
        twin = LastModels(self._x0, self._clients, self.store.copy())
        twin.moved = self.moved
        return twin
