"""A table of rows that grows: in memory, or in a file that is mapped to memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Table(Protocol):
    values: Tensor
    """[capacity, ...], to be read; rows that were never written have any values."""

    def reserve(self, rows: int) -> None:
        """Make room for so many rows. Capacity doubles, so that growing costs a constant per row."""
        ...

    def write(self, rows: np.ndarray, values: Tensor) -> None: ...


class MemoryTable:
    def __init__(self, row: Tensor, most: int) -> None:
        """`row` has the shape and type of every row. Room for `most` rows takes no memory until it is used."""
        self.values, self._most = row.new_empty(0, *row.shape, device="cpu"), most

    def reserve(self, rows: int) -> None:
        capacity = len(self.values)
        if rows > capacity:
            grown = self.values.new_empty(max(rows, 2 * capacity, self._most), *self.values.shape[1:])
            grown[:capacity] = self.values
            self.values = grown

    def write(self, rows: np.ndarray, values: Tensor) -> None:
        self.values[torch.from_numpy(rows)] = values.cpu()


class FileTable:
    """In a file without a name: the system removes it with the process, however that ends, so nothing is left behind.

    The file has holes: only rows that were written take space. They are read through the mapping, but written to the
    file: on a full disk that is an error, where writing to the mapping would end the process with a signal.
    """

    def __init__(self, row: Tensor, most: int, folder: Path) -> None:
        self._folder, self._most = folder, most
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.values = row.new_empty(0, *row.shape, device="cpu")
        self._row_size = row.numel() * row.element_size()

    def reserve(self, rows: int) -> None:
        if rows > len(self.values):
            capacity = max(rows, 2 * len(self.values), self._most)
            try:
                os.ftruncate(self._file.fileno(), capacity * self._row_size)
            except OSError as error:
                raise self._naming(error) from None
            mapped = mmap.mmap(self._file.fileno(), capacity * self._row_size)
            self.values = torch.frombuffer(mapped, dtype=self.values.dtype).view(capacity, *self.values.shape[1:])

    def write(self, rows: np.ndarray, values: Tensor) -> None:
        """Neighbouring rows in one go."""
        content = values.cpu().contiguous().view(torch.uint8).numpy().reshape(len(rows), self._row_size)
        ends = [*(1 + np.flatnonzero(np.diff(rows) != 1)).tolist(), len(rows)]
        begin = 0
        for end in ends:
            part, place = content[begin:end].data.cast("B"), int(rows[begin]) * self._row_size
            while len(part):
                try:
                    written = os.pwrite(self._file.fileno(), part, place)
                except OSError as error:
                    raise self._naming(error) from None
                part, place = part[written:], place + written
            begin = end

    def _naming(self, error: OSError) -> OSError:
        """The error of a file without a name, with its folder."""
        return OSError(error.errno, error.strerror, str(self._folder))


def new_table(row: Tensor, most: int, folder: Path | None) -> Table:
    """`folder`: where the file is made; None: in memory, as single numbers always are."""
    return MemoryTable(row, most) if folder is None or row.numel() <= 1 else FileTable(row, most, folder)
