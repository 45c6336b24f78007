"""Client states between rounds: one row per client that took part, none for the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from driftless.engine.tables import Table, new_table
from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves


class ClientStore:
    """Rows of client state, one growing table per field of the state; never on an accelerator."""

    def __init__(self, folder: Path | None = None, dtype: torch.dtype | None = None, most: int = 0) -> None:
        """`folder`: where the files of the rows are made; None: rows are in memory.

        `dtype`: in which vectors are stored; None: in their own. Single numbers, such as a round, keep their own.
        `most`: how many rows are expected at most, so that tables need not grow.
        """
        self._folder, self._dtype, self._most = folder, dtype, most
        self._row_of = np.zeros(0, dtype=np.int32)
        """By client, its row + 1; 0 for a client without."""
        self._number = 0
        self._free: list[int] = []
        """Rows of clients that were removed."""
        self._tables: list[Table] = []
        self.touched: set[int] = set()
        """Clients written since a checkpoint emptied this set."""

    def __len__(self) -> int:
        return self._number

    def __contains__(self, client: int) -> bool:
        return client < len(self._row_of) and self._row_of[client] > 0

    @property
    def clients(self) -> list[int]:
        """The clients that have a row, in rising order."""
        return np.flatnonzero(self._row_of).tolist()

    def get(self, clients: Sequence[int], initial: Tree) -> Tree:
        """States of these clients, stacked; `initial` for those without a row. The result is a copy."""
        rows = self._rows(clients)
        new = np.flatnonzero(rows < 0).tolist()
        if len(new) == len(clients):
            return map_leaves(lambda leaf: leaf.expand(len(clients), *leaf.shape).clone(), initial)
        index = torch.from_numpy(rows.clip(0))
        pairs = zip(self._tables, leaves(initial), strict=True)
        stacked = [table.values[index].to(leaf.device, leaf.dtype) for table, leaf in pairs]
        for values, leaf in zip(stacked, leaves(initial), strict=True):
            values[new] = leaf
        return with_leaves(initial, stacked)

    def rows(self, clients: Sequence[int]) -> list[Tensor]:
        """The stored rows of these clients, one stacked tensor a field; all of them must have one."""
        index = torch.from_numpy(self._rows(clients))
        return [table.values[index] for table in self._tables]

    def put(self, clients: Sequence[int], states: Tree) -> None:
        """Write the stacked states; clients that come for the first time get a row."""
        values = self.as_stored(leaves(states))
        if not values or not len(clients):
            return
        if not self._tables:
            self._tables = [new_table(value[0], self._most, self._folder) for value in values]
        rows = self._rows(clients)
        new = rows < 0
        number = int(new.sum())
        reused, used = self._free[:number], self._number + len(self._free)
        needed = used + number - len(reused)
        rows[new] = [*reused, *range(used, needed)]
        for table, value in zip(self._tables, values, strict=True):
            table.reserve(needed)
            table.write(rows, value)
        # only now, so that a disk that is full changes nothing
        del self._free[:number]
        self._number += number
        self._row_of[np.asarray(clients)] = rows + 1
        self.touched.update(clients)

    def remove(self, clients: Sequence[int]) -> None:
        """Forget these clients."""
        rows = np.unique(self._rows(clients))
        known = rows[rows >= 0].tolist()
        self._free += known
        self._row_of[np.asarray(clients, dtype=np.int64)] = 0
        self._number -= len(known)
        self.touched.difference_update(clients)

    def as_stored(self, values: list[Tensor]) -> list[Tensor]:
        """Stacked values in the types in which they are stored."""
        if self._dtype is None:
            return values
        return [value.to(self._dtype) if value.is_floating_point() and value.dim() > 1 else value for value in values]

    def copy(self) -> ClientStore:
        twin = self.empty()
        twin._row_of, twin._number = self._row_of.copy(), self._number
        twin._free, twin.touched = list(self._free), set(self.touched)
        used = self._number + len(self._free)
        for table in self._tables:
            other = new_table(table.values[0], self._most, self._folder)
            other.reserve(used)
            other.write(np.arange(used), table.values[:used])
            twin._tables.append(other)
        return twin

    def empty(self) -> ClientStore:
        """Another one of the same kind, without rows."""
        return ClientStore(self._folder, self._dtype, self._most)

    def _rows(self, clients: Sequence[int]) -> np.ndarray:
        """The row of each client, -1 for one without."""
        ids = np.asarray(clients, dtype=np.int64)
        return self._index(clients)[ids].astype(np.int64) - 1

    def _index(self, clients: Sequence[int]) -> np.ndarray:
        """`_row_of`, with an entry for each of these clients."""
        needed = max(clients, default=-1) + 1
        if needed > len(self._row_of):
            more = max(needed, 2 * len(self._row_of)) - len(self._row_of)
            self._row_of = np.concatenate([self._row_of, np.zeros(more, dtype=np.int32)])
        return self._row_of
