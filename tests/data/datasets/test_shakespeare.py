from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

import driftless
from data import write_files as write
from driftless.data.datasets import shakespeare
from driftless.data.datasets.shakespeare import Alphabet
from driftless.errors import InputError

HAMLET = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer"
LEAR = "Blow, winds, and crack your cheeks! rage! blow!"


def decode(alphabet: Alphabet, tokens: Iterable[int]) -> str:
    """The text of these tokens; begin and end of a speech as < and >."""
    back = {alphabet.first + i: character for i, character in enumerate(alphabet.characters)}
    back |= {88: "<", 89: ">"} if alphabet is shakespeare.TFF else {}
    return "".join(back[int(token)] for token in tokens)


def roles(folder: Path, *speeches: list[str]) -> None:
    entries = [{"play": "p", "role": f"R{i}", "speeches": own} for i, own in enumerate(speeches)]
    write.lines(folder / "shakespeare_roles.jsonl.gz", entries)


def test_a_window_predicts_the_character_after_it(folder: Path):
    roles(folder, [HAMLET], [LEAR])
    federation = driftless.load("shakespeare", length=10, stride=3, min_characters=0)
    assert federation.client_names == ("p: R0", "p: R1")
    assert federation.classes == 80
    assert federation.inputs.dtype == federation.targets.dtype == torch.int64
    for client, text in enumerate((HAMLET, LEAR)):
        cut = len(text) - int(0.2 * len(text))
        starts = range(0, cut - 10, 3)
        inputs, targets = federation.client(client)
        assert [decode(shakespeare.LEAF, row) for row in inputs] == [text[i : i + 10] for i in starts]
        assert decode(shakespeare.LEAF, targets) == "".join(text[i + 10] for i in starts)


def test_the_test_windows_are_of_the_last_fifth_and_share_no_character_with_training(folder: Path):
    text = "".join(chr(ord("A") + i) for i in range(26)) + "".join(chr(ord("a") + i) for i in range(24))
    roles(folder, [text])
    federation = driftless.load("shakespeare", length=4, stride=1, min_characters=0)
    assert federation.test is not None
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [6]
    trained = {*federation.inputs.ravel().tolist(), *federation.targets.tolist()}
    tested = {*federation.test[0].ravel().tolist(), *federation.test[1].tolist()}
    assert not trained & tested
    assert decode(shakespeare.LEAF, sorted(trained)) == text[:40]
    assert decode(shakespeare.LEAF, sorted(tested)) == text[40:]


def test_a_sequence_predicts_every_next_character_and_marks_the_speeches(folder: Path):
    roles(folder, ["Words, words.", "Alas"] * 10)
    federation = driftless.load("shakespeare", length=8, targets="sequence", min_characters=0)
    assert federation.classes == 90
    whole = "<Words, words.><Alas>" * 10
    rows = [decode(shakespeare.TFF, row) for row in federation.inputs]
    assert rows == [whole[i : i + 8] for i in range(0, 8 * len(rows), 8)]
    assert torch.equal(federation.inputs[0, 1:], federation.targets[0, :-1])
    assert "".join(decode(shakespeare.TFF, row) for row in federation.targets) == whole[1 : 8 * len(rows) + 1]
    assert federation.inputs.min() > 0  # nothing is padded


def test_the_vocabularies_are_those_of_leaf_and_tff_and_know_an_unknown_character():
    assert len(set(shakespeare.LEAF.characters)) == 80
    assert shakespeare.LEAF.encode("\n }$é漢").tolist() == [0, 1, 79, 79, 79, 79]
    assert len(set(shakespeare.TFF.characters)) == 89
    assert shakespeare.TFF.encode("dh\r~漢\x02\x03").tolist() == [1, 2, 86, 87, 87, 88, 89]


def test_roles_with_little_text_are_left_out(folder: Path):
    roles(folder, ["x" * 2000], ["y" * 1999], ["z" * 15])
    assert driftless.load("shakespeare").client_names == ("p: R0",)
    assert driftless.load("shakespeare", min_characters=0).client_names == ("p: R0", "p: R1")  # R2 fills no window
    with pytest.raises(InputError, match=r"no user .* has min_characters=9000 and length=80 characters"):
        driftless.load("shakespeare", min_characters=9000)


def test_the_first_users_with_enough_windows_are_kept_with_their_first_windows(folder: Path):
    roles(folder, [HAMLET], ["Howl, howl!"], [LEAR], [HAMLET[::-1]])
    options = {"length": 5, "stride": 1, "min_characters": 0}
    whole = driftless.load("shakespeare", **options)
    assert whole.sizes.tolist() == [63, 4, 33, 63]
    few = driftless.load("shakespeare", **options, min_examples_per_user=10, limit_users=2, max_examples_per_user=40)
    assert few.client_names == ("p: R0", "p: R2")
    assert few.sizes.tolist() == [40, 33]
    for client, was in enumerate((0, 2)):
        for kept, all_of_them in zip(few.client(client), whole.client(was), strict=True):
            assert torch.equal(kept, all_of_them[:40])
        assert whole.client_test is not None
        assert few.client_test is not None
        for kept, all_of_them in zip(few.client_test.client(client), whole.client_test.client(was), strict=True):
            assert torch.equal(kept, all_of_them)


def test_too_many_windows_asked_of_every_user_are_an_error(folder: Path):
    roles(folder, [HAMLET], [LEAR])
    with pytest.raises(InputError, match="no user of data set 'shakespeare' has min_examples_per_user=1000; lower it"):
        driftless.load("shakespeare", length=5, stride=1, min_characters=0, min_examples_per_user=1000)


def test_the_snippets_of_tff_are_joined_by_client(folder: Path):
    speeches = [{"snippets": HAMLET.encode()}, {"snippets": LEAR.encode()}]
    splits = {"train": {"LEAR": speeches, "B": [{"snippets": b"A."}]}, "test": {"LEAR": [{"snippets": LEAR.encode()}]}}
    path = write.database(folder / "shakespeare.sqlite", splits)
    federation = driftless.load("shakespeare", length=5, stride=1)
    text = f"{HAMLET}\n{LEAR}"
    assert federation.client_names == ("LEAR",)
    assert len(federation.inputs) == len(text) - 5
    assert decode(shakespeare.LEAF, federation.targets) == text[5:]
    assert federation.test is not None
    assert decode(shakespeare.LEAF, federation.test[1]) == LEAR[5:]
    path.unlink()
    for part, clients in splits.items():
        values = {name: {"snippets": [example["snippets"] for example in own]} for name, own in clients.items()}
        write.h5(folder / f"shakespeare_{part}.h5", values)
    assert torch.equal(driftless.load("shakespeare", length=5, stride=1).inputs, federation.inputs)
    with pytest.raises(InputError, match="no user"):
        driftless.load("shakespeare", length=5, min_characters=len(text) + len(LEAR))


def leaf_windows(text: str) -> tuple[list[str], list[str]]:
    return [text[i : i + 80] for i in range(len(text) - 80)], [text[i + 80] for i in range(len(text) - 80)]


def test_the_windows_of_leaf_are_taken_as_they_are(folder: Path):
    text = (HAMLET + LEAR) * 2
    write.leaf(folder / "shakespeare" / "train" / "a.json", {"h": leaf_windows(text)})
    write.leaf(folder / "shakespeare" / "test" / "a.json", {"h": leaf_windows(text[::-1]), "z": leaf_windows(text)})
    federation = driftless.load("shakespeare")
    assert federation.sizes.tolist() == [len(text) - 80]
    assert decode(shakespeare.LEAF, federation.inputs[3]) == text[3:83]
    assert decode(shakespeare.LEAF, federation.targets) == text[80:]
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [len(text) - 80]
    assert driftless.load("shakespeare", stride=7).inputs.equal(federation.inputs[::7])
    assert driftless.load("shakespeare", length=20).inputs.equal(federation.inputs[:, -20:])
    sequence = driftless.load("shakespeare", targets="sequence")
    assert decode(shakespeare.TFF, sequence.targets[1]) == text[81:161]


def test_of_a_single_file_of_leaf_the_test_windows_overlap_with_no_training_window(folder: Path):
    write.leaf(folder / "shakespeare.json", {"h": leaf_windows("".join(chr(256 + i) for i in range(1080)))})
    windows, test = shakespeare._leaf_windows()
    assert (len(windows[0][1]), len(test[0][1])) == (720, 200)
    assert not set("".join(windows[0][1])) & set("".join(test[0][1]))
    write.leaf(folder / "shakespeare.json", {"short": leaf_windows(HAMLET + LEAR)})
    short = driftless.load("shakespeare")
    assert short.sizes.tolist() == [len(HAMLET + LEAR) - 80]
    assert short.test is None


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (["a" * 79], ["b"], {}, "is not windows of 80 characters and one next character; make the file again"),
        ([[1] * 80], ["b"], {}, "is not text"),
        (["a" * 80], ["b"], {"length": 81}, "LEAF's files hold windows of 80 characters, got length=81"),
        (["a" * 80], ["b"], {"min_characters": 5}, "min_characters has no use for LEAF's files"),
    ],
)
def test_what_leafs_windows_cannot_be_is_an_error(folder: Path, x, y, options, message: str):
    write.leaf(folder / "shakespeare.json", {"h": (x, y)})
    with pytest.raises(InputError) as error:
        driftless.load("shakespeare", **options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"play": "p", "role": "r"}',
            "has no 'speeches'; a file of roles (play, role, speeches) has an object a line",
        ),
        ('{"play": ', "shakespeare_roles.jsonl.gz cannot be read: it is not a file of roles"),
    ],
)
def test_a_wrong_file_of_roles_is_named(folder: Path, content: str, message: str):
    write.text(folder / "shakespeare_roles.jsonl.gz", content)
    with pytest.raises(InputError) as error:
        driftless.load("shakespeare")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": "all"}, "targets must be one of 'next', 'sequence', got 'all'"),
        ({"length": 0}, "length must be a whole number of at least 1"),
        ({"stride": 0}, "stride must be a whole number of at least 1"),
        ({"source": "roles"}, "needs shakespeare_roles.jsonl.gz, which is not here"),
        ({"source": "leaf"}, "LEAF's files of data set 'shakespeare' are not here"),
        ({}, "needs shakespeare.sqlite.lzma, which is not here"),
    ],
)
def test_options_and_absent_files_are_explained(folder: Path, options, message: str):
    assert not shakespeare.is_here()
    with pytest.raises(InputError) as error:
        driftless.load("shakespeare", **options)
    assert message in str(error.value)


def test_a_packed_database_that_is_cut_off_is_named(folder: Path):
    (folder / "shakespeare.sqlite.lzma").write_bytes(lzma.compress(bytes(1000))[:-10])
    with pytest.raises(InputError, match=r"shakespeare\.sqlite\.lzma cannot be read: it is not an LZMA archive"):
        driftless.load("shakespeare")


def test_the_real_roles_give_windows_of_the_plays(real: Path):
    write.need(real / "shakespeare_roles.jsonl.gz")
    federation = driftless.load("shakespeare", stride=80)
    assert federation.clients == 445
    assert federation.client_names is not None
    king = federation.client_names.index("1kinghenryiv: KING HENRY IV")
    inputs, targets = federation.client(king)
    start = "So shaken as we are, so wan with care,\nFind we a time for frighted peace to pant,"
    assert decode(shakespeare.LEAF, [*inputs[0], targets[0]]) == start
    assert federation.test is not None
    train = set(map(bytes, federation.inputs.to(torch.uint8).numpy()))
    assert not train & set(map(bytes, federation.test[0].to(torch.uint8).numpy()))
    assert 0.15 < len(federation.test[0]) / (len(federation.inputs) + len(federation.test[0])) < 0.25
