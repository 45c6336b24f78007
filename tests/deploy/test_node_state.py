from __future__ import annotations

import json
import os
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor

from driftless.deploy import node_state
from driftless.deploy.node_state import StateFiles
from driftless.deploy.refusal import Refused
from driftless.engine.tree import leaves, structure
from laws.entries import ENTRIES, NAMES

RUN = "0123456789abcdef" * 2
OWNER = {"run": RUN, "client": "2", "node": "102", "algorithm": "Scaffold", "protocol": "1"}


class State(NamedTuple):
    c: Tensor
    seen: Tensor


INITIAL = State(torch.zeros(5), torch.zeros(()))


def state(t: int) -> State:
    return State(torch.arange(5.0) + t, torch.tensor(float(t)))


def files(folder: Path, **owner: str) -> StateFiles:
    return StateFiles(folder, OWNER | owner)


def file_of(folder: Path, t: int, client: int = 2, node: int = 102, run: str = RUN) -> Path:
    return folder / run / f"client-{client}-node-{node}" / f"round-{t:08d}.safetensors"


def written(folder: Path, t: int = 3) -> Path:
    files(folder).write(t, state(t), t - 1)
    return file_of(folder, t)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_every_algorithm_comes_back(tmp_path: Path, name: str):
    initial = ENTRIES[name].init_client(torch.zeros(8))
    new = ENTRIES[name].init_client(torch.arange(8.0))
    files(tmp_path).write(3, new, 0)
    found = files(tmp_path).read(3, initial)
    assert structure(found) == structure(new)
    assert all(torch.equal(one, other) for one, other in zip(leaves(found), leaves(new), strict=True))


def test_a_client_begins_with_the_initial_state_and_one_that_is_not_there_is_none(tmp_path: Path):
    assert files(tmp_path).read(0, INITIAL) is INITIAL
    assert files(tmp_path).read(3, INITIAL) is None


def test_an_algorithm_without_states_writes_nothing_and_misses_nothing(tmp_path: Path):
    files(tmp_path).write(3, (), 0)
    assert files(tmp_path).read(3, ()) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_state_that_was_cut_off_is_refused(tmp_path: Path, part: float):
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(Refused, match=r"the state in 'round-00000003.safetensors' cannot be read"):
        files(tmp_path).read(3, INITIAL)


def test_no_bit_of_a_state_can_change_unnoticed(tmp_path: Path):
    path = written(tmp_path)
    whole = path.read_bytes()
    for place in range(0, 8 * len(whole), 3):  # every byte, and every third bit
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = files(tmp_path).read(3, INITIAL)
        except Refused:
            continue
        # what JSON allows to be written in several ways
        assert found is not None
        assert all(torch.equal(one, other) for one, other in zip(found, state(3), strict=True))


@pytest.mark.parametrize(
    ("name", "other"),
    [("client", "1"), ("node", "101"), ("run", "f" * 32), ("algorithm", "FedDyn"), ("protocol", "2")],
)
def test_the_state_of_another_owner_is_refused(tmp_path: Path, name: str, other: str):
    files(tmp_path, **{name: other}).write(3, state(3), 2)
    (path,) = tmp_path.rglob("*.safetensors")
    place = file_of(tmp_path, 3)
    place.parent.mkdir(parents=True, exist_ok=True)
    path.rename(place)
    with pytest.raises(Refused, match=f"^the state in 'round-00000003.safetensors' is of another {name}$"):
        files(tmp_path).read(3, INITIAL)


def test_the_state_of_another_round_is_refused(tmp_path: Path):
    shutil.copy(written(tmp_path, 2), file_of(tmp_path, 3))
    with pytest.raises(Refused, match="is of another round"):
        files(tmp_path).read(3, INITIAL)


@pytest.mark.parametrize(
    ("initial", "reason"),
    [
        (State(torch.zeros(6), torch.zeros(())), "c in 'round-00000003.safetensors' has another shape or dtype"),
        (State(torch.zeros(5).double(), torch.zeros(())), "c in .* has another shape or dtype than the algorithm's"),
        ((torch.zeros(5), torch.zeros(())), "has other fields than the algorithm's"),
        ({"c": torch.zeros(5)}, "has other fields than the algorithm's"),
    ],
)
def test_the_state_of_another_model_or_algorithm_is_refused(tmp_path: Path, initial: Any, reason: str):
    written(tmp_path)
    with pytest.raises(Refused, match=reason):
        files(tmp_path).read(3, initial)


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("make", [a_link, a_link_to_nothing, a_folder, a_pipe])
def test_what_is_not_a_file_is_refused(tmp_path: Path, make: Callable[[Path], None]):
    make(written(tmp_path))
    with pytest.raises(Refused, match=r"^the state 'round-00000003.safetensors' is a link or a folder, not a file$"):
        files(tmp_path).read(3, INITIAL)


def huge_and_empty(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)


def header_of(**tensors: Any) -> bytes:
    text = json.dumps({"__metadata__": {**OWNER, "round": "3"}, **tensors}).encode()
    return struct.pack("<Q", len(text)) + text


def terabytes_in_the_header(path: Path) -> None:
    size = 2**40
    path.write_bytes(header_of(c={"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}))


def a_header_that_claims_to_be_long(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")


def shapes_that_overflow(path: Path) -> None:
    path.write_bytes(header_of(c={"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 0]}))


def a_type_of_another_kind(path: Path) -> None:
    path.write_bytes(header_of(c={"dtype": "F8_E4M3", "shape": [5], "data_offsets": [0, 5]}) + bytes(5))


@pytest.mark.parametrize(
    "damage",
    [
        huge_and_empty, terabytes_in_the_header, a_header_that_claims_to_be_long, shapes_that_overflow,
        a_type_of_another_kind,
    ],
)  # fmt: skip
def test_a_file_that_claims_to_be_huge_is_refused_and_costs_no_memory(tmp_path: Path, damage: Callable[[Path], None]):
    damage(written(tmp_path))
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=r"round-00000003\.safetensors"):
            files(tmp_path).read(3, INITIAL)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_new_state_that_cannot_be_written_is_refused_and_the_old_one_stays(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Refused, match=r"^the new state cannot be written: "):
        files(tmp_path / "file").write(3, state(3), 2)


def test_a_kill_between_write_and_rename_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path)

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            files(tmp_path).write(3, state(9), 2)
    assert any(each.suffix == ".tmp" for each in file_of(tmp_path, 3).parent.iterdir())
    found = files(tmp_path).read(3, INITIAL)
    assert found is not None
    assert torch.equal(found.c, state(3).c)
    files(tmp_path).write(3, state(10), 2)
    assert [each.name for each in file_of(tmp_path, 3).parent.iterdir()] == ["round-00000003.safetensors"]


def chain(folder: Path, pairs: list[tuple[int, int]]) -> StateFiles:
    """States of these rounds, each with the round of that with which it began."""
    found = files(folder)
    for t, begun_with in pairs:
        found.write(t, state(t), begun_with)
    return found


@pytest.mark.parametrize(
    ("pairs", "t", "used", "kept"),
    [
        ([(1, 0), (2, 1), (3, 2), (4, 3)], 2, 3, [2, 3, 4]),  # took part in every round
        ([(1, 0), (5, 1), (9, 5)], 6, 5, [5, 9]),  # seldom
        ([(1, 0), (5, 1), (6, 1), (9, 1)], 6, 1, [1, 9]),  # the uploads of 5 and 6 came too late: 1 is needed
        ([(1, 0), (4, 1), (5, 1), (7, 5), (8, 7)], 6, 7, [5, 7, 8]),  # that of 4 came too late
        ([(1, 0), (5, 1), (7, 5), (9, 7)], 0, 7, [1, 5, 7, 9]),  # the server may begin anew
        ([(2, 0), (3, 0), (8, 0)], 6, 0, [8]),  # nothing was ever accepted
        ([(5, 1), (7, 5), (9, 7)], 3, 7, [5, 7, 9]),  # that of 1 was lost
        ([(5, 0), (9, 7)], 6, 7, [5, 9]),  # that of 7 was lost: it is not known what was before
    ],
)
def test_states_that_the_server_can_name_again_are_kept_and_no_others(
    tmp_path: Path, pairs: list[tuple[int, int]], t: int, used: int, kept: list[int]
):
    found = chain(tmp_path, pairs)
    found.remove_before(t, used)
    assert found.rounds() == kept


def test_files_that_are_not_states_are_left_alone(tmp_path: Path):
    found = chain(tmp_path, [(1, 0), (2, 1)])
    folder = file_of(tmp_path, 1).parent
    (folder / "round-x.safetensors").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    (folder / "round-00000000.safetensors").mkdir()
    found.remove_before(2, 2)
    assert found.rounds() == [0, 2]
    assert (folder / "round-x.safetensors").exists()
    assert (folder / "notes.txt").exists()


def test_a_chain_of_states_that_cannot_be_followed_removes_nothing(tmp_path: Path):
    found = chain(tmp_path, [(1, 0), (2, 1), (3, 2)])
    file_of(tmp_path, 3).write_bytes(b"damaged")
    found.remove_before(2, 3)
    assert found.rounds() == [1, 2, 3]
    for begun_with in ("3", "9", "-1", "x", ""):  # not before round 3: following it would never end
        content = safetensors.torch.save({"c": torch.zeros(5)}, {node_state.BEGUN_WITH: begun_with})
        file_of(tmp_path, 3).write_bytes(content)
        found.remove_before(2, 3)
        assert found.rounds() == [1, 2, 3]
