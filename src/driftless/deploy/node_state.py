"""The state of a client on its node's disk: a safetensors file a round, whole or not there.

    FOLDER/<run>/client-<number>-node-<node>/round-00000012.safetensors

The server says with which of them a round begins: that of the last round in which it accepted the client's upload. A
state whose upload came too late, or belongs to a round that the server plays again after a crash, is thus never used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from driftless.deploy.records import short
from driftless.deploy.refusal import Refused
from driftless.engine.tree import Tree, leaves, named_leaves, with_leaves
from driftless.runs.files import write_atomically

DTYPES = {"torch.float32": "F32", "torch.float64": "F64", "torch.int64": "I64", "torch.bool": "BOOL"}
BEGUN_WITH = "begun with"
MOST_HEADER = 100_000
"""Bytes of a file besides its tensors."""


class StateFiles:
    def __init__(self, folder: Path, owner: Mapping[str, str]) -> None:
        """`owner`: whose states they are, written into each file and compared when it is read."""
        self._folder = folder / owner["run"] / f"client-{owner['client']}-node-{owner['node']}"
        self._owner = dict(owner)

    def read(self, t: int, initial: Tree) -> Tree | None:
        """The state after round t, None if there is none; `initial` has its structure, and is the state of round 0."""
        if t == 0 or not leaves(initial):
            return initial
        path = self._path(t)
        if not os.path.lexists(path):
            return None
        wanted = dict(named_leaves(initial))
        check_file(path, sum(leaf.nbytes for leaf in wanted.values()) + MOST_HEADER)
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                check_owner(path, about, self._owner | {"round": str(t)})
                check_tensors(path, {name: file.get_slice(name) for name in file.keys()}, wanted)  # noqa: SIM118
                found = {name: file.get_tensor(name) for name in wanted}
        except (SafetensorError, OSError, ValueError) as error:
            raise Refused(f"the state in '{path.name}' cannot be read: {short(error, 200)}") from None
        if about.pop("sha256", "") != checksum_of(found, about):
            raise Refused(f"the state in '{path.name}' is damaged: its checksum does not hold")
        return with_leaves(initial, [found[name] for name in wanted])

    def write(self, t: int, state: Tree, begun_with: int) -> None:
        """`begun_with`: the round of the state with which round t began."""
        if not leaves(state):
            return
        tensors = {name: leaf.detach().cpu().contiguous().clone() for name, leaf in named_leaves(state)}
        about = {**self._owner, "round": str(t), BEGUN_WITH: str(begun_with)}
        content = safetensors.torch.save(tensors, about | {"sha256": checksum_of(tensors, about)})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(t), content)
        except OSError as error:
            raise Refused(f"the new state cannot be written: {short(error, 200)}") from None

    def begun_with(self, t: int) -> int | None:
        """The round of the state with which round t began; None if its file is not there, or damaged."""
        try:
            with safe_open(self._path(t), "pt") as file:
                found = (file.metadata() or {}).get(BEGUN_WITH, "")
        except (SafetensorError, OSError, ValueError):
            return None
        return int(found) if found.isdecimal() and int(found) < t else None

    def remove_before(self, t: int, used: int) -> None:
        """Keep what the server can still name: states after round t, and the last one up to t that it accepted.

        It now uses that of round `used`. Those before it are known from the files: a state whose upload came too late
        is in none of them the beginning.
        """
        needed: int | None = used
        while needed is not None and needed > t:
            needed = self.begun_with(needed)
        if needed is None:
            return
        for each in self.rounds():
            if each <= t and each != needed:
                with suppress(OSError):
                    self._path(each).unlink()

    def rounds(self) -> list[int]:
        files = self._folder.glob("round-*.safetensors") if self._folder.is_dir() else ()
        numbers = [file.stem.removeprefix("round-") for file in files]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _path(self, t: int) -> Path:
        return self._folder / f"round-{t:08d}.safetensors"


def check_file(path: Path, most: int) -> None:
    if path.is_symlink() or not path.is_file():
        raise Refused(f"the state '{path.name}' is a link or a folder, not a file")
    if path.stat().st_size > most:
        raise Refused(f"the state in '{path.name}' has {path.stat().st_size} bytes; at most {most} are expected")


def check_owner(path: Path, found: Mapping[str, str], owner: Mapping[str, str]) -> None:
    for name, value in owner.items():
        if found.get(name) != value:
            raise Refused(f"the state in '{path.name}' is of another {name}")


def check_tensors(path: Path, found: Mapping[str, object], wanted: Mapping[str, Tensor]) -> None:
    """By the header of the file, before its tensors are read."""
    if set(found) != set(wanted):
        raise Refused(f"the state in '{path.name}' has other fields than the algorithm's")
    for name, leaf in wanted.items():
        part: object = found[name]
        shape, dtype = part.get_shape(), part.get_dtype()  # pyright: ignore[reportAttributeAccessIssue]
        if list(shape) != list(leaf.shape) or dtype != DTYPES.get(str(leaf.dtype)):
            raise Refused(f"{name} in '{path.name}' has another shape or dtype than the algorithm's")


def checksum_of(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    total = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].detach().contiguous().flatten().numpy().tobytes())
    return total.hexdigest()
