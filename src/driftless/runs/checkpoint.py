"""Exact checkpoints: a small manifest, the server's tensors, and only the client rows that changed.

    manifest-00000040.json         round, length and checksum of the metrics files, the files below with their checksums
    server-00000040.safetensors
    clients-00000030.safetensors, clients-00000040.safetensors ...     rows, newer ones replace older ones;
                                                                       many rows: also clients-00000040.1 ...
    clients-00000030.safetensors.copy ...                              the same bytes
    metrics.jsonl, events.jsonl                                        copies, written with the files of the run

Each save appends the rows that were touched since the last one, so its cost does not grow with the number of clients.
When more rows are stale than alive, one save writes all rows anew, which costs a constant per row in the long run.
Every file is written atomically and a manifest is written last: a kill at any moment leaves the previous checkpoint
whole. The last two are kept; one whose checksums do not hold is passed over and reported. What both of them need, the
rows of clients and the lines of metrics, is there twice: a damaged file is put back from its copy, and reported.

Randomness needs no saving: every stream is keyed by (seed, purpose, round, client).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from driftless.engine.clients import ClientStore
from driftless.engine.state import State
from driftless.engine.tree import leaves, named_leaves, with_leaves
from driftless.errors import InputError
from driftless.runs.files import Prefix, read_bytes, whole_prefix, write_atomically

KEPT = 2
STORES = ("clients", "models")
COPY = ".copy"
MOST_BYTES = 2**26
"""Of the rows in a file."""


@dataclass
class Segment:
    """A file of client rows."""

    name: str
    sha256: str
    rows: int


@dataclass(frozen=True)
class Loaded:
    state: State
    lines: dict[str, bytes]
    """What each metrics file held when the checkpoint was made."""
    damaged: list[str]
    """What was wrong with newer checkpoints, and what was put back from a copy, in words."""


class Checkpoints:
    """The checkpoint folder of one run."""

    def __init__(self, folder: Path, config: str = "") -> None:
        """`config` is a fingerprint of the settings; a checkpoint of other settings is refused."""
        self.folder = folder
        self._config = config
        self._segments: dict[str, list[Segment]] = {name: [] for name in STORES}

    def save(self, state: State, prefixes: Mapping[str, Prefix]) -> None:
        """`prefixes` are of the metrics files, by their name."""
        self.folder.mkdir(exist_ok=True)
        for name, store in stores_of(state).items():
            self._save_rows(name, store, state.round)
        server = self._write(f"server-{state.round:08d}", server_tensors(state))
        manifest = {
            "round": state.round,
            "lost": state.lost,
            "config": self._config,
            "positions": {name: prefix.length for name, prefix in prefixes.items()},
            "checksums": {name: prefix.sha256 for name, prefix in prefixes.items()},
            "server": server.__dict__,
            **{name: [segment.__dict__ for segment in self._segments[name]] for name in STORES},
        }
        body = json.dumps(manifest, indent=1)
        signed = json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "manifest": body})
        write_atomically(self.folder / f"manifest-{state.round:08d}.json", signed.encode())
        self._remove_old()

    def load(self, initial: State) -> Loaded | None:
        """The newest whole checkpoint; None if there is none at all. `initial` gives the structure of the state."""
        damaged: list[str] = []
        manifests = sorted(self.folder.glob("manifest-*.json"), reverse=True)
        for path in manifests:
            try:
                manifest = read_manifest(path)
                if manifest["config"] != self._config:
                    raise InputError(
                        f"config.toml was changed since the checkpoint {path.name} was made, so the run cannot be "
                        "continued to the same bits; undo the change, or start a new run with it."
                    )
                repaired: list[str] = []
                lines = self._read_lines(manifest, repaired)
                state = self._read_state(manifest, initial, repaired)
            except Damaged as error:
                damaged.append(f"{path.name}: {error}")
                continue
            self._segments = {name: [Segment(**s) for s in manifest[name]] for name in STORES}
            self._remove_old()  # what a save left behind that did not come to its end
            return Loaded(state, lines, [f"{each}; an older checkpoint is used" for each in damaged] + repaired)
        if manifests:
            raise InputError(
                f"no checkpoint in '{self.folder}' can be used ({'; '.join(damaged)}); "
                "delete that folder to run again from the first round."
            )
        return None

    def _save_rows(self, name: str, store: ClientStore, t: int) -> None:
        segments = self._segments[name]
        touched = sorted(store.touched)
        if sum(s.rows for s in segments) + len(touched) > 2 * len(store):
            touched, segments = sorted(store.clients), []
        for number, clients in enumerate(pieces(store, touched)):
            rows = {f"{i:03d}": rows for i, rows in enumerate(store.rows(clients))}
            file = f"{name}-{t:08d}{f'.{number}' if number else ''}"
            written = self._write(file, {"ids": torch.tensor(clients, device="cpu"), **rows}, copy=True)
            segments = [*segments, replace(written, rows=len(clients))]
        self._segments[name] = segments
        store.touched.clear()

    def _write(self, name: str, tensors: dict[str, Tensor], copy: bool = False) -> Segment:
        content = safetensors.torch.save({key: tensor.contiguous().clone() for key, tensor in tensors.items()})
        path = self.folder / f"{name}.safetensors"
        write_atomically(path, content)
        if copy:
            write_atomically(copy_of(path), content)
        return Segment(path.name, hashlib.sha256(content).hexdigest(), 0)

    def _read_lines(self, manifest: dict[str, Any], repaired: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, length in manifest["positions"].items():
            prefix = Prefix(length, manifest.get("checksums", {}).get(name))
            content, problem = whole_prefix(self.folder.parent / name, self.folder / name, prefix)
            if content is None:
                raise Damaged(problem)
            repaired += [problem] if problem else []
            found[name] = content
        return found

    def _read_state(self, manifest: dict[str, Any], initial: State, repaired: list[str]) -> State:
        state = initial.copy()
        tensors = self.read(Segment(**manifest["server"]))
        state = filled(state, tensors)
        state = replace(state, round=manifest["round"], lost=manifest["lost"])
        for name, store in stores_of(state).items():
            for segment in manifest[name]:
                rows = self._read_rows(Segment(**segment), repaired)
                ids = rows.pop("ids").tolist()
                store.put(ids, tuple(rows[key] for key in sorted(rows)))
            store.touched.clear()
        return state

    def _read_rows(self, segment: Segment, repaired: list[str]) -> dict[str, Tensor]:
        try:
            return self.read(segment)
        except Damaged as problem:
            copy = copy_of(self.folder / segment.name)
            if not copy.exists():  # saved by a version of driftless that made none
                raise
            rows = self.read(replace(segment, name=copy.name))
            write_atomically(self.folder / segment.name, copy.read_bytes())
            repaired.append(f"{problem}; it is put back from its copy")
            return rows

    def read(self, segment: Segment) -> dict[str, Tensor]:
        try:
            content = read_bytes(self.folder / segment.name)
        except FileNotFoundError:
            raise Damaged(f"{segment.name} is missing") from None
        if hashlib.sha256(content).hexdigest() != segment.sha256:
            raise Damaged(f"{segment.name} is damaged (its checksum does not hold)")
        return safetensors.torch.load(content)

    def _remove_old(self) -> None:
        """Keep the last two manifests and the files they name."""
        manifests = sorted(self.folder.glob("manifest-*.json"), reverse=True)
        needed: set[str] = set()
        for path in manifests[:KEPT]:
            try:
                manifest = read_manifest(path)
            except Damaged:
                return  # which files a damaged manifest names is unknown: keep all
            needed |= {manifest["server"]["name"], *(s["name"] for name in STORES for s in manifest[name])}
        for path in manifests[KEPT:]:
            path.unlink()
        for path in self.folder.glob("*.safetensors*"):
            if path.name.removesuffix(COPY) not in needed:
                path.unlink()


def pieces(store: ClientStore, clients: list[int]) -> list[list[int]]:
    """The clients in parts whose rows fit into memory a few times, however many there are."""
    if not clients:
        return []
    bytes_of_a_row = sum(row.nbytes for row in store.rows(clients[:1]))
    most = max(1, MOST_BYTES // max(1, bytes_of_a_row))
    return [clients[i : i + most] for i in range(0, len(clients), most)]


def copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{COPY}")


class Damaged(Exception):
    """A checkpoint file is not what was written."""


def read_manifest(path: Path) -> dict[str, Any]:
    try:
        signed = json.loads(path.read_bytes())
        body = signed["manifest"].encode()
        whole = hashlib.sha256(body).hexdigest() == signed["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise Damaged("the manifest cannot be read") from None
    if not whole:
        raise Damaged("the manifest's checksum does not hold")
    return json.loads(body)


def newest_server(folder: Path) -> dict[str, Tensor]:
    """The server's tensors in the newest whole checkpoint; for looking at, without the rest of the state."""
    for path in sorted(folder.glob("manifest-*.json"), reverse=True):
        try:
            return Checkpoints(folder).read(Segment(**read_manifest(path)["server"]))
        except Damaged:
            continue
    raise InputError(f"there is no whole checkpoint in '{folder}'; the run has not saved one yet.")


def stores_of(state: State) -> dict[str, ClientStore]:
    stores = {"clients": state.clients}
    return stores if state.models is None else {**stores, "models": state.models.store}


def server_tensors(state: State) -> dict[str, Tensor]:
    tensors = {f"server.{name}": leaf for name, leaf in named_leaves(state.server)}
    tensors["aggregate"] = state.aggregate
    if state.models is not None:
        tensors["moved"] = state.models.moved
    return tensors


def filled(state: State, tensors: dict[str, Tensor]) -> State:
    """The state with the saved tensors in place of its own."""
    names = [f"server.{name}" for name, _ in named_leaves(state.server)]
    wanted = {*names, "aggregate"} | ({"moved"} if state.models is not None else set())
    if set(tensors) != wanted or [tensors[n].shape for n in names] != [leaf.shape for leaf in leaves(state.server)]:
        raise InputError(
            "the checkpoint is of another algorithm or model than config.toml describes; "
            "resume with the config.toml that the run was started with."
        )
    if state.models is not None:
        state.models.moved = tensors["moved"]
    device = state.server.x.device
    server = with_leaves(state.server, [tensors[name].to(device) for name in names])
    return replace(state, server=server, aggregate=tensors["aggregate"].to(device))
