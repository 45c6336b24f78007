"""Stack Overflow: predict the next word of a post, one client per user; files of TensorFlow Federated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from driftless.data import fetch
from driftless.data.examples import Examples
from driftless.data.formats import tff
from driftless.data.formats.archive import open_text
from driftless.data.formats.file_errors import report_damage
from driftless.data.preprocessing.words import Sentences, check_text_options, most_frequent_words, next_word_examples
from driftless.errors import InputError, check_whole

PUBLISHED = tff.Published(
    "stackoverflow",
    fetch.RemoteFile(
        "stackoverflow.sqlite.lzma",
        # no address: several gigabytes are never downloaded just because the data set was named
        advice=f"download {tff.BUCKET}/stackoverflow.sqlite.lzma (several gigabytes) yourself",
    ),
    splits=("train", "test"),
    stem="stackoverflow",
)
WORD_COUNTS = "stackoverflow.word_count"


def load(
    words: int = 10_000,
    length: int = 20,
    limit_users: int | None = 10_000,
    max_examples_per_user: int | None = 1000,
    test_examples: int | None = None,
) -> Examples:
    """The first `limit_users` users by name, of 342,477: all of them would need more than 40 GB.

    The vocabulary is `stackoverflow.word_count` if that file is found, else it is counted in the training part.
    test_examples: an evenly spaced choice of so many, because evaluation on all takes long.
    """
    check_text_options(words, length, max_examples_per_user, test_examples)
    if limit_users is not None:
        check_whole("limit_users", limit_users, 1)
    train_split, test_split = PUBLISHED.locate()
    most = max_examples_per_user
    train = _sentences(train_split.clients("tokens", limit_users=limit_users, max_examples=most), length)
    test = _sentences(test_split.clients("tokens", only={user for user, _ in train}, max_examples=most), length)
    counts = fetch.find("stackoverflow", WORD_COUNTS)
    sentences = (sentence for _, sentence in train)
    vocabulary = _read_words(counts, words) if counts else most_frequent_words(sentences, words)
    return next_word_examples(train, test, vocabulary, length, test_examples)


def is_here() -> bool:
    return PUBLISHED.are_here()


def _sentences(clients: Iterable[tff.Client], length: int) -> Sentences:
    """Sentences without words are left out."""
    cut = ((name, value.decode().split()[:length]) for name, (values,) in clients for value in values)
    return [(name, sentence) for name, sentence in cut if sentence]


def _read_words(path: Path, most: int) -> list[str]:
    """The first `most` words of a file that has `word<tab>count` per line, the most frequent first."""
    words: list[str] = []
    with report_damage(path, "a list of words and counts"), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            entry = line.split()
            if len(entry) != 2 or not entry[1].isdigit():
                raise InputError(
                    f"line {number} of {path} is {line.strip()[:40]!r}; it should be a word and its count."
                )
            words.append(entry[0])
    if not words:
        raise InputError(f"{path} is empty; get it again, or remove it to have the words counted.")
    return words[:most]
