"""Client states between rounds: one row per client that took part, none for the others."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves


class ClientStore:
    """Rows of client state in main memory, whatever the device; one growing table per field of the state."""

    def __init__(self) -> None:
        self._row_of: dict[int, int] = {}
        self._free: list[int] = []
        """Rows of clients that were removed."""
        self._tables: list[Tensor] = []
        self.touched: set[int] = set()
        """Clients written since a checkpoint emptied this set."""

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, client: int) -> bool:
        return client in self._row_of

    @property
    def clients(self) -> list[int]:
        """The clients that have a row, in the order they first took part."""
        return list(self._row_of)

    def get(self, clients: Sequence[int], initial: Tree) -> Tree:
        """States of these clients, stacked; `initial` for those without a row. The result is a copy."""
        new = [i for i, client in enumerate(clients) if client not in self._row_of]
        if len(new) == len(clients):
            return map_leaves(lambda leaf: leaf.expand(len(clients), *leaf.shape).clone(), initial)
        rows = torch.tensor([self._row_of.get(client, 0) for client in clients], device="cpu")
        parts = zip(self._tables, leaves(initial), strict=True)
        stacked = [table[rows].to(leaf.device) for table, leaf in parts]
        for values, leaf in zip(stacked, leaves(initial), strict=True):
            values[new] = leaf
        return with_leaves(initial, stacked)

    def rows(self, clients: Sequence[int]) -> list[Tensor]:
        """The stored rows of these clients, one stacked tensor a field; all of them must have one."""
        rows = torch.tensor([self._row_of[client] for client in clients], dtype=torch.long, device="cpu")
        return [table[rows] for table in self._tables]

    def put(self, clients: Sequence[int], states: Tree) -> None:
        """Write the stacked states; clients that come for the first time get a row."""
        values = leaves(states)
        if not values:
            return
        for client in clients:
            if client not in self._row_of:
                self._row_of[client] = self._free.pop() if self._free else len(self._row_of)
        self.touched.update(clients)
        self._grow(values)
        rows = torch.tensor([self._row_of[client] for client in clients], dtype=torch.long, device="cpu")
        for table, value in zip(self._tables, values, strict=True):
            table[rows] = value.cpu()

    def remove(self, clients: Sequence[int]) -> None:
        """Forget these clients."""
        self._free += [self._row_of.pop(client) for client in clients if client in self._row_of]
        self.touched.difference_update(clients)

    def _grow(self, values: list[Tensor]) -> None:
        """Room for all rows; capacity doubles, so that growing costs a constant per row."""
        needed = len(self._row_of) + len(self._free)
        if not self._tables:
            self._tables = [torch.empty(needed, *value.shape[1:], dtype=value.dtype, device="cpu") for value in values]
        elif self._tables[0].shape[0] < needed:
            capacity = max(needed, 2 * self._tables[0].shape[0])
            self._tables = [
                torch.cat([table, table.new_empty(capacity - table.shape[0], *table.shape[1:])])
                for table in self._tables
            ]

    def copy(self) -> ClientStore:
        return copy.deepcopy(self)
