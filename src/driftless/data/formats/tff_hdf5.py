"""HDF5 files of TensorFlow Federated: the data set `examples/<client>/<field>` holds the values of all examples."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from driftless.data.formats.file_errors import report_damage
from driftless.data.formats.tff_client import ClientReader, check_fields, first_names
from driftless.errors import InputError


@contextlib.contextmanager
def open_hdf5(path: Path) -> Generator[tuple[list[str], ClientReader]]:
    """The names of all clients, and a function that reads one of them."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path} is an HDF5 file and needs h5py: pip install 'driftless[tff]'.") from error
    with report_damage(path, "HDF5"), h5py.File(path, "r") as file:
        groups: Any = file.get("examples")
        if groups is None:
            raise InputError(
                f"{path} is not a file of TensorFlow Federated: it has {first_names(file)} and no group 'examples'."
            )

        def read_client(client: str, fields: Sequence[str], most: int | None) -> list[Sequence[Any]]:
            group = groups[client]
            check_fields(path, client, fields, group)
            return [group[field][:most] for field in fields]

        yield list(groups), read_client
