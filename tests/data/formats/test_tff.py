from __future__ import annotations

import lzma
import sqlite3
import sys
from pathlib import Path

import pytest

from data import write_files as write
from driftless.data.fetch import RemoteFile
from driftless.data.formats import tff
from driftless.errors import InputError

EXAMPLES = {
    "train": {"b": [{"x": b"one", "y": 1}, {"x": b"two", "y": 2}, {"x": b"three", "y": 3}], "a": [{"x": b"", "y": -4}]},
    "test": {"b": [{"x": b"four", "y": 5}], "z": [{"x": b"five", "y": 6}]},
}
PUBLISHED = tff.Published("words", RemoteFile("words.sqlite.lzma", None), ("train", "test"), "words")


def in_h5(folder: Path) -> None:
    for split, clients in EXAMPLES.items():
        fields = {c: {key: [e[key] for e in rows] for key in ("x", "y")} for c, rows in clients.items()}
        write.h5(folder / f"words_{split}.h5", fields)


def in_database(folder: Path) -> None:
    write.database(folder / "words.sqlite", EXAMPLES)


def packed(folder: Path) -> None:
    path = write.database(folder / "words.sqlite", EXAMPLES)
    (folder / "words.sqlite.lzma").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()


def contents(part: tff.Split, **choice) -> list[tuple[str, list[bytes], list[int]]]:
    return [(name, list(x), [int(v) for v in y]) for name, (x, y) in part.clients("x", "y", **choice)]


@pytest.mark.parametrize("form", [in_h5, in_database, packed])
def test_every_form_gives_the_same_clients_in_the_order_of_their_names(folder: Path, form):
    assert not PUBLISHED.are_here()
    form(folder)
    assert PUBLISHED.are_here()
    train, test = PUBLISHED.locate()
    assert contents(train) == [("a", [b""], [-4]), ("b", [b"one", b"two", b"three"], [1, 2, 3])]
    assert contents(test) == [("b", [b"four"], [5]), ("z", [b"five"], [6])]
    assert contents(train, max_examples=2) == [("a", [b""], [-4]), ("b", [b"one", b"two"], [1, 2])]
    assert [name for name, *_ in contents(train, limit_users=1)] == ["a"]
    assert [name for name, *_ in contents(test, only={"a", "b"})] == ["b"]


def test_a_database_is_unpacked_once_and_again_when_it_changed(folder: Path):
    packed(folder)
    first = PUBLISHED.locate()[0].path
    before = first.stat().st_mtime_ns
    assert PUBLISHED.locate()[0].path.stat().st_mtime_ns == before
    assert folder not in first.parents
    write.database(folder / "new.sqlite", {"train": {"n": [{"x": b"new", "y": 7}]}, "test": {}})
    (folder / "words.sqlite.lzma").write_bytes(lzma.compress((folder / "new.sqlite").read_bytes()))
    assert contents(PUBLISHED.locate()[0]) == [("n", [b"new"], [7])]


def test_a_damaged_file_is_named_with_the_remedy(folder: Path):
    in_h5(folder)
    for suffix in ("h5", "sqlite", "lzma"):
        if suffix == "h5":
            path = folder / "words_train.h5"
            path.write_bytes(path.read_bytes()[:-300])
        elif suffix == "sqlite":
            in_database(folder)
            path = folder / "words.sqlite"
            path.write_bytes(path.read_bytes()[:5000])
        else:
            packed(folder / "other")
            content = (folder / "other" / "words.sqlite.lzma").read_bytes()
            (folder / "words.sqlite").unlink()
            path = folder / "words.sqlite.lzma"
            path.write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError) as error:
            contents(PUBLISHED.locate()[0])
        assert f"{path} cannot be read" in str(error.value)
        assert "get it again" in str(error.value)


def test_a_file_of_something_else_says_what_was_found(folder: Path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "words_train.h5", "w") as file:
        file.create_dataset("weights", data=[1.0])
    with pytest.raises(InputError, match=r"words_test\.h5 is not; put it into the same folder"):
        PUBLISHED.locate()
    (folder / "words_test.h5").write_bytes((folder / "words_train.h5").read_bytes())
    with pytest.raises(InputError, match=r"it has weights and no group 'examples'"):
        contents(PUBLISHED.locate()[0])
    connection = sqlite3.connect(folder / "words.sqlite")
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="it has the tables people and not examples and client_metadata"):
        contents(PUBLISHED.locate()[0])


def test_absent_fields_and_parts_and_broken_records_are_errors(folder: Path):
    in_database(folder)
    part = PUBLISHED.locate()[0]
    with pytest.raises(InputError, match=r"words\.sqlite is not .* 'a' has the fields x, y and not 'pixels'"):
        list(part.clients("pixels"))
    with pytest.raises(InputError, match=r"it has the splits test, train and not 'heldout'"):
        list(tff.Split(part.path, "heldout").clients("x"))
    connection = sqlite3.connect(part.path)
    connection.execute("UPDATE examples SET serialized_example_proto = ?", (b"\x0a\xff",))
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match=r"a record of client 'a' in .*words\.sqlite is not a tf\.train\.Example"):
        contents(part)


def test_without_h5py_the_error_says_how_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    in_h5(folder)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"needs h5py: pip install 'driftless\[tff\]'"):
        contents(PUBLISHED.locate()[0])
