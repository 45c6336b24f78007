"""Stack Overflow, and chat messages in its place: predict the next word, one client per user.

A sentence is `begin w1 ... wk end`, cut and padded to length + 1 words as in TensorFlow Federated's preprocessing; the
targets are the inputs shifted by one. Tokens: 0 padding, 1..V words by frequency, V+1 unknown, V+2 begin, V+3 end.
Padding is a class like any other here: the loss is a mean over whole examples. So accuracies are higher and losses
lower than those of papers that leave padding out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from driftless.data import fetch
from driftless.data.datasets import tff
from driftless.data.datasets.reading import check_room, open_text, read_lines, reading
from driftless.data.datasets.source import Examples
from driftless.data.datasets.users import Part, as_examples, number_for_test
from driftless.data.datasets.words import most_frequent
from driftless.data.tensors import as_count
from driftless.errors import InputError

PAD = 0
SPECIALS = 4  # padding, unknown, begin, end
PUBLISHED = tff.Published(
    "stackoverflow",
    fetch.RemoteFile(
        "stackoverflow.sqlite.lzma",
        None,  # gigabytes: nobody should start that by naming a data set
        advice=f"download {tff.BUCKET}/stackoverflow.sqlite.lzma (several gigabytes) yourself",
    ),
    splits=("train", "test"),
    stem="stackoverflow",
)
WORD_COUNTS = "stackoverflow.word_count"
CHITCHAT = fetch.RemoteFile(
    "chitchat_by_user.jsonl.gz",
    None,
    advice="regroup the messages of the Python package chitchat-dataset by sender, one JSON object a line with "
    "'user' and 'messages'",
)
CHITCHAT_FORMAT = "a file of messages by user (user, messages)"
SOURCE = "Stack Overflow, by TensorFlow Federated from the data hosted by Kaggle; CC BY-SA 3.0"
CHITCHAT_SOURCE = "Chit-Chat Challenge, BYU Perception, Control and Cognition Laboratory, 2018; MIT"
TOKEN = re.compile(r"https?://\S+|[a-z0-9'-]+|[^\sa-z0-9'-]")

Sentences = list[tuple[str, list[str]]]  # (user, words)


def load(
    words: int = 10_000,
    length: int = 20,
    limit_users: int | None = 10_000,
    max_examples_per_user: int | None = 1000,
    test_examples: int | None = None,
) -> Examples:
    """The first `limit_users` users by name, of 342,477: all of them would need more than 40 GB.

    The vocabulary is `stackoverflow.word_count` where it is here, else counted in the training part. test_examples: an
    evenly spaced choice of so many, as evaluation on all takes long.
    """
    _check(words, length, max_examples_per_user, test_examples)
    if limit_users is not None:
        as_count("limit_users", limit_users, 1)
    found = PUBLISHED.locate()
    most = max_examples_per_user
    train = _sentences(found.train.clients("tokens", limit_users=limit_users, max_examples=most), length)
    test = _sentences(found.test.clients("tokens", only={user for user, _ in train}, max_examples=most), length)
    counts = fetch.find("stackoverflow", WORD_COUNTS)
    vocabulary = _counted(train, words) if counts is None else _read_counts(counts, words)
    return _examples(train, test, vocabulary, length, test_examples, SOURCE)


def load_chitchat(
    words: int = 10_000,
    length: int = 20,
    min_messages: int = 1,
    max_examples_per_user: int | None = None,
    test_examples: int | None = None,
) -> Examples:
    """A message is a sentence; the last fifth of a user's messages is for the test."""
    _check(words, length, max_examples_per_user, test_examples)
    as_count("min_messages", min_messages, 1)
    train: Sentences = []
    test: Sentences = []
    path = fetch.obtain("chitchat", CHITCHAT)
    for entry in read_lines(path, CHITCHAT_FORMAT, ("user", "messages")):
        name, messages = str(entry["user"]), entry["messages"][:max_examples_per_user]
        sentences = [(name, tokens[:length]) for message in messages if (tokens := tokenise(message))]
        if len(sentences) >= min_messages:
            cut = len(sentences) - number_for_test(len(sentences))
            train += sentences[:cut]
            test += sentences[cut:]
    if not train:
        raise InputError(f"no user in {path} has min_messages={min_messages} messages with words; lower it.")
    return _examples(train, test, _counted(train, words), length, test_examples, CHITCHAT_SOURCE)


def chitchat_is_here() -> bool:
    return fetch.find("chitchat", CHITCHAT.name) is not None


def tokenise(text: str) -> list[str]:
    """As the sentences of Stack Overflow were made: lower case, ASCII, punctuation apart but for ' and -, <URL>."""
    plain = text.lower().encode("ascii", "ignore").decode()
    return ["<URL>" if token.startswith(("http://", "https://")) else token for token in TOKEN.findall(plain)]


def encode(sentences: Iterable[Sequence[str]], vocabulary: Sequence[str], length: int) -> np.ndarray:
    """[n, length + 1] tokens."""
    number = len(vocabulary)
    unknown, begin, end = number + 1, number + 2, number + 3
    token_of = {word: i for i, word in enumerate(vocabulary, start=1)}
    cut = [sentence[:length] for sentence in sentences]
    sizes = np.array([len(sentence) for sentence in cut], dtype=np.int64)
    tokens = np.fromiter((token_of.get(w, unknown) for sentence in cut for w in sentence), np.int64, sizes.sum())
    rows = np.full((len(cut), length + 1), PAD, dtype=np.int64)
    rows[:, 0] = begin
    place = np.arange(len(tokens)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    rows[np.repeat(np.arange(len(cut)), sizes), place] = tokens
    short = np.flatnonzero(sizes < length)
    rows[short, sizes[short] + 1] = end
    return rows


def decode(tokens: Iterable[int], vocabulary: Sequence[str]) -> str:
    names = ["<pad>", *vocabulary, "<unknown>", "<begin>", "<end>"]
    return " ".join(names[int(token)] for token in tokens if token != PAD)


def _check(words: int, length: int, max_examples_per_user: int | None, test_examples: int | None) -> None:
    as_count("words", words, 1)
    as_count("length", length, 1)
    for name, value in (("max_examples_per_user", max_examples_per_user), ("test_examples", test_examples)):
        if value is not None:
            as_count(name, value, 1)


def _sentences(clients: Iterable[tff.Client], length: int) -> Sentences:
    """Sentences without words are left out."""
    cut = ((name, value.decode().split()[:length]) for name, (values,) in clients for value in values)
    return [(name, sentence) for name, sentence in cut if sentence]


def _examples(
    train: Sentences, test: Sentences, vocabulary: list[str], length: int, test_examples: int | None, source: str
) -> Examples:
    if test_examples is not None and test_examples < len(test):
        test = [test[i * len(test) // test_examples] for i in range(test_examples)]
    check_room(
        3 * 8 * (length + 1) * (len(train) + len(test)),
        f"the windows of {len(train) + len(test)} sentences",
        "lower limit_users or max_examples_per_user",
    )
    parts = [_part(sentences, vocabulary, length) for sentences in (train, test)]
    return as_examples(parts[0], parts[1], len(vocabulary) + SPECIALS, source, "no user has a sentence to train on.")


def _part(sentences: Sentences, vocabulary: list[str], length: int) -> Part | None:
    if not sentences:
        return None
    rows = torch.from_numpy(encode((words for _, words in sentences), vocabulary, length))
    return Part(rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), [user for user, _ in sentences])


def _counted(train: Sentences, words: int) -> list[str]:
    return most_frequent((sentence for _, sentence in train), words)


def _read_counts(path: Path, words: int) -> list[str]:
    """`word<tab>count` a line, the most frequent first."""
    vocabulary: list[str] = []
    with reading(path, "a list of words and counts"), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if len(vocabulary) == words:
                break
            entry = line.split()
            if len(entry) != 2 or not entry[1].isdigit():
                raise InputError(
                    f"line {number} of {path} is {line.strip()[:40]!r}; it should be a word and its count."
                )
            vocabulary.append(entry[0])
    if not vocabulary:
        raise InputError(f"{path} is empty; get it again, or remove it to have the words counted.")
    return vocabulary
