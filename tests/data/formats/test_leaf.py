from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from data import write_files as write
from driftless.data.formats import leaf
from driftless.errors import InputError

TWO = {"ann": ([[1, 2], [3, 4]], [0, 1]), "bob": ([[5, 6]], [1])}


def test_a_folder_of_several_files_is_read_in_the_order_of_their_names(tmp_path: Path):
    write.leaf(tmp_path / "train" / "b.json.gz", {"cyd": ([[7, 8]], [0])})
    write.leaf(tmp_path / "train" / "a.json", TWO)
    (tmp_path / "train" / "notes.txt").write_text("not data")
    users = list(leaf.read_users(tmp_path / "train"))
    assert [(user.name, user.x, user.y) for user in users] == [
        ("ann", [[1, 2], [3, 4]], [0, 1]),
        ("bob", [[5, 6]], [1]),
        ("cyd", [[7, 8]], [0]),
    ]


def test_a_single_file_is_read_by_itself(tmp_path: Path):
    path = write.leaf(tmp_path / "all_data.json", TWO)
    assert [user.name for user in leaf.read_users(path)] == ["ann", "bob"]


@pytest.mark.parametrize("place", ["femnist/train", "femnist/data/train", "train"])
def test_the_folders_are_found_where_leaf_makes_them(folder: Path, place: str):
    assert not leaf.are_here("femnist")
    write.leaf(folder / place / "a.json", TWO)
    write.leaf(folder / place / "../test/a.json", TWO)
    assert leaf.locate("femnist") == (folder / place, (folder / place).parent / "test")


def test_a_single_file_has_no_test_part_and_folders_need_one(folder: Path):
    write.leaf(folder / "femnist.json.gz", TWO)
    assert leaf.locate("femnist") == (folder / "femnist.json.gz", None)
    write.leaf(folder / "sent140" / "train" / "a.json", TWO)
    with pytest.raises(InputError, match=r"sent140/test is missing; put LEAF's folder test there"):
        leaf.locate("sent140")


def test_without_files_the_error_says_how_to_make_them(folder: Path):
    with pytest.raises(InputError, match=r"LEAF's files of data set 'sent140' are not here; make them with LEAF's"):
        leaf.locate("sent140")


@pytest.mark.parametrize(
    ("users", "changes", "message"),
    [
        (TWO, {"num_samples": [2, 3]}, "user 'bob' in {} has 1 x and 1 y, but num_samples says 3; make the file again"),
        (TWO, {"num_samples": [2]}, "{} has 2 users, but 1 entries of num_samples"),
        ({"ann": ([[1], [2]], [0])}, {}, "user 'ann' in {} has 2 x and 1 y"),
        (TWO, {"users": ["ann", "eve"]}, "user 'eve' in {} has no lists x and y; make the file again"),
        (TWO, {"user_data": None}, "{} is not one of LEAF's files: it has the keys users, num_samples, hierarchies"),
        (TWO, {"num_samples": None}, "and no 'num_samples'; a file of LEAF has users, num_samples, user_data"),
    ],
)
def test_a_file_that_contradicts_itself_is_an_error(tmp_path: Path, users, changes, message: str):
    path = write.leaf(tmp_path / "a.json", users, **changes)
    with pytest.raises(InputError) as error:
        list(leaf.read_users(path))
    assert message.format(path) in str(error.value)


def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path):
    whole = json.dumps({"users": ["a"] * 1000, "num_samples": [0] * 1000, "user_data": {}}).encode()
    contents = {
        "cut.json": whole[:500],
        "cut.json.gz": gzip.compress(whole)[:-20],
        "binary.json": b"\xff\xfe\x00\x80",
        "no_gzip.json.gz": whole,
        "list.json": b"[1, 2]",
        "empty.json": b"",
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            list(leaf.read_users(path))
        assert str(path) in str(error.value)
        assert "get it again" in str(error.value) or "a file of LEAF has" in str(error.value)


def test_a_folder_without_files_is_an_error(tmp_path: Path):
    with pytest.raises(InputError, match=r"has no files that end in \.json or \.json\.gz"):
        list(leaf.read_users(tmp_path))
