"""Shakespeare: predict the next character, one client per role of a play.

Three sources: a file of roles (`shakespeare_roles.jsonl.gz`), LEAF's files and those of TensorFlow Federated (TFF).
The vocabulary is fixed. targets="next" has LEAF's 80 characters, and any other character is the last of them, as in
LEAF's own encoding. targets="sequence" has TFF's 90 tokens: padding, 86 characters, unknown, begin and end of a speech.
No window is padded, so every label counts; a user whose text is shorter than one window is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from driftless.data import fetch
from driftless.data.examples import Examples, UserExamples, as_examples, test_size
from driftless.data.formats import leaf, tff
from driftless.data.formats.jsonl import read_jsonl
from driftless.errors import InputError, check_choice, check_whole

UNKNOWN, BEGIN, END = "\x01", "\x02", "\x03"  # begin and end of a speech; these characters occur in no text
STRIDE = 10
MIN_CHARACTERS = 2000
LEAF_LENGTH = 80
ROLES = "shakespeare_roles.jsonl.gz"
PUBLISHED = tff.Published(
    "shakespeare",
    fetch.RemoteFile(
        "shakespeare.sqlite.lzma",
        f"{tff.BUCKET}/shakespeare.sqlite.lzma",
        checksum="sha256:d3d11fceb9e105439ac6f4d52af6efafed5a2a1e1eb24c5bd2dd54ced242f5c4",
        advice=leaf.advice("shakespeare"),
    ),
    splits=("train", "test"),
    stem="shakespeare",
)

Texts = list[tuple[str, str]]  # (user, text)


@dataclass(frozen=True)
class Alphabet:
    characters: str
    first: int  # the token of the first character
    unknown: int  # the token of any other

    def encode(self, text: str) -> npt.NDArray[np.uint8]:
        """The tokens of all characters at once, through a table of the first 256 code points."""
        table = np.full(257, self.unknown, dtype=np.uint8)
        for token, character in enumerate(self.characters, start=self.first):
            table[ord(character)] = token
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        return table[np.minimum(codes, 256)]


LEAF = Alphabet(
    "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}", first=0, unknown=79
)
TFF = Alphabet(
    "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"
    + f"{UNKNOWN}{BEGIN}{END}",
    first=1,
    unknown=87,
)


def load(
    length: int = 80,
    targets: str = "next",
    stride: int | None = None,
    min_characters: int | None = None,
    source: str = "auto",
    limit_users: int | None = None,
    min_examples_per_user: int | None = None,
    max_examples_per_user: int | None = None,
) -> Examples:
    """Windows of `length` characters.

    targets: "next" (one label, the character after the window) or "sequence" (the next character at every place).
    stride: characters between two windows; by default 10 for "next" and `length` for "sequence". LEAF's files hold
    windows with stride 1: there it is every stride-th of them, by default every one for "next".
    min_characters: users with less text are left out; by default 2000 for the file of roles, none for the others.
    source: "auto" (the first that is here), "roles", "leaf" or "tff".
    min_examples_per_user: users with fewer training windows are left out. limit_users: the first so many of the others,
    in the order of the files. max_examples_per_user: the first so many training windows of each. The test has all
    windows of these users.
    """
    check_whole("length", length, 1)
    check_choice("targets", targets, ("next", "sequence"))
    if stride is not None:
        check_whole("stride", stride, 1)
    if min_characters is not None:
        check_whole("min_characters", min_characters, 0)
    check_choice("source", source, ("auto", "roles", "leaf", "tff"))
    chosen = {"limit_users": limit_users, "min_examples_per_user": min_examples_per_user,
              "max_examples_per_user": max_examples_per_user}  # fmt: skip
    for name, value in chosen.items():
        check_whole(name, value, 1, other=None)
    alphabet = LEAF if targets == "next" else TFF
    source = _first_source() if source == "auto" else source
    if source == "leaf":
        train, test = _from_leaf(alphabet, length, targets, stride, min_characters)
    else:
        stride = stride or (STRIDE if targets == "next" else length)
        texts_of = _texts_of_roles if source == "roles" else _texts_of_tff
        train, test = (windows(part, alphabet, length, stride, targets) for part in texts_of(targets, min_characters))
    empty = (
        f"no user of data set 'shakespeare' has min_characters={min_characters} and length={length} characters with "
        "the one after; lower them."
    )
    if train is not None and any(chosen.values()):
        users = choose_users(train.users, min_examples_per_user or 0, limit_users)
        train, test = first_of_each(train, users, max_examples_per_user), test and first_of_each(test, users, None)
        empty = f"no user of data set 'shakespeare' has min_examples_per_user={min_examples_per_user}; lower it."
    return as_examples(train, test, alphabet.first + len(alphabet.characters), empty)


def is_here() -> bool:
    return _first_source() != "tff" or PUBLISHED.are_here()


def _first_source() -> str:
    if fetch.find("shakespeare", ROLES):
        return "roles"
    return "leaf" if leaf.are_here("shakespeare") else "tff"


def windows(texts: Texts, alphabet: Alphabet, length: int, stride: int, targets: str) -> UserExamples | None:
    """All windows of all texts; none reaches from one user's text into the next."""
    tokens = alphabet.encode("".join(text for _, text in texts))
    sizes = np.array([len(text) for _, text in texts], dtype=np.int64)
    counts = np.maximum(0, (sizes - length - 1) // stride + 1)
    if counts.sum() == 0:
        return None
    begins = np.repeat(np.cumsum(sizes) - sizes, counts)
    turn = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... within each user
    rows = np.lib.stride_tricks.sliding_window_view(tokens, length + 1)[begins + stride * turn]
    users = [user for (user, _), count in zip(texts, counts, strict=True) for _ in range(count)]
    return _inputs_and_targets(rows, targets, users)


def choose_users(users: Sequence[str], least: int, most: int | None) -> set[str]:
    """The first `most` users with at least `least` examples; `users`: of each example."""
    return set([user for user, number in Counter(users).items() if number >= least][:most])


def first_of_each(part: UserExamples, users: set[str], most: int | None) -> UserExamples | None:
    """The first `most` examples of each of these users."""
    seen = Counter[str]()
    rows: list[int] = []
    for i, user in enumerate(part.users):
        if user in users and (most is None or seen[user] < most):
            seen[user] += 1
            rows.append(i)
    kept = torch.tensor(rows, dtype=torch.int64)
    return UserExamples(part.inputs[kept], part.targets[kept], [part.users[i] for i in rows]) if rows else None


def _inputs_and_targets(rows: npt.NDArray[np.uint8], targets: str, users: list[str]) -> UserExamples:
    """Rows of length + 1 tokens: inputs, and the last one or the shifted row as targets."""
    labels = rows[:, -1] if targets == "next" else rows[:, 1:]
    inputs, labels = (torch.from_numpy(values.astype(np.int64)) for values in (rows[:, :-1], labels))
    return UserExamples(inputs, labels, users)


def _join_speeches(speeches: Iterable[str], targets: str) -> str:
    if targets == "next":
        return "\n".join(speeches)
    return "".join(f"{BEGIN}{speech}{END}" for speech in speeches)


def _texts_of_roles(targets: str, min_characters: int | None) -> tuple[Texts, Texts]:
    """The last fifth of the characters of a role, in the order of the play, is for the test."""
    path = fetch.obtain("shakespeare", fetch.RemoteFile(ROLES))
    least = MIN_CHARACTERS if min_characters is None else min_characters
    train: Texts = []
    test: Texts = []
    for entry in read_jsonl(path, "roles", ("play", "role", "speeches")):
        text = _join_speeches(entry["speeches"], targets)
        if sum(map(len, entry["speeches"])) < least:
            continue
        cut = len(text) - test_size(len(text))
        name = f"{entry['play']}: {entry['role']}"
        train.append((name, text[:cut]))
        test.append((name, text[cut:]))
    return train, test


def _texts_of_tff(targets: str, min_characters: int | None) -> tuple[Texts, Texts]:
    snippets = [
        {name: [snippet.decode() for snippet in values] for name, (values,) in part.clients("snippets")}
        for part in PUBLISHED.locate()
    ]
    sizes = {name: sum(len(s) for part in snippets for s in part.get(name, [])) for part in snippets for name in part}
    train, test = (
        [(name, _join_speeches(lines, targets)) for name, lines in part.items() if sizes[name] >= (min_characters or 0)]
        for part in snippets
    )
    return train, test


def _from_leaf(
    alphabet: Alphabet, length: int, targets: str, stride: int | None, min_characters: int | None
) -> tuple[UserExamples | None, UserExamples | None]:
    if min_characters is not None:
        raise InputError("min_characters has no use for LEAF's files, which hold windows and not texts; leave it out.")
    if length > LEAF_LENGTH:
        raise InputError(f"LEAF's files hold windows of {LEAF_LENGTH} characters, got length={length}; use at most 80.")
    step = stride or (1 if targets == "next" else length)
    parts: list[UserExamples | None] = []
    for rows in _leaf_windows():
        kept = [(name, windows[::step]) for name, windows in rows]
        text = "".join(window[-length - 1 :] for _, windows in kept for window in windows)
        tokens = alphabet.encode(text).reshape(-1, length + 1)
        users = [name for name, windows in kept for _ in windows]
        parts.append(_inputs_and_targets(tokens, targets, users) if len(tokens) else None)
    return parts[0], parts[1]


def _leaf_windows() -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    """The windows with their labels, 81 characters each.

    Of a single file the last fifth of each user is for the test, and the windows before it that overlap with it are
    left out, as LEAF does; a user with too few windows for that only trains.
    """
    train_path, test_path = leaf.locate("shakespeare")
    train = [(user.name, _checked_windows(user)) for user in leaf.read_users(train_path)]
    if test_path is not None:
        return train, [(user.name, _checked_windows(user)) for user in leaf.read_users(test_path)]
    test: list[tuple[str, list[str]]] = []
    for i, (name, windows) in enumerate(train):
        cut = len(windows) - test_size(len(windows))
        if cut > LEAF_LENGTH:
            train[i] = (name, windows[: cut - LEAF_LENGTH])
            test.append((name, windows[cut:]))
    return train, test


def _checked_windows(user: leaf.User) -> list[str]:
    try:
        windows = [x + y for x, y in zip(user.x, user.y, strict=True)]
    except TypeError as error:
        raise user.error("is not text") from error
    if not all(isinstance(window, str) and len(window) == LEAF_LENGTH + 1 for window in windows):
        raise user.error(f"is not windows of {LEAF_LENGTH} characters and one next character")
    return windows
