"""Sentences as token numbers, to predict the next word, as TensorFlow Federated encodes them; and their vocabulary.

A sentence is `begin w1 ... wk end`, cut and padded to length + 1 tokens; the targets are the inputs shifted by one.
Tokens: 0 padding, 1..V words by frequency, V+1 unknown, V+2 begin, V+3 end. Padding is a class like any other, so that
the loss is a mean over whole examples, and lower than where padding is masked. The accuracy over words only, as papers
have it, is that with evaluate.ignored_labels=[0, V+1, V+2, V+3].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from driftless.data.examples import Examples, UserExamples, as_examples
from driftless.data.memory import check_memory
from driftless.errors import check_whole

Sentences: TypeAlias = list[tuple[str, list[str]]]  # (user, words)

PAD = 0
SPECIAL_TOKENS = 4  # padding, unknown, begin, end


def check_text_options(words: int, length: int, max_examples_per_user: int | None, test_examples: int | None) -> None:
    check_whole("words", words, 1)
    check_whole("length", length, 1)
    for name, value in (("max_examples_per_user", max_examples_per_user), ("test_examples", test_examples)):
        if value is not None:
            check_whole(name, value, 1)


def most_frequent_words(sentences: Iterable[Sequence[str]], number: int) -> list[str]:
    """By count, then alphabetically, so that the order of the sentences does not matter."""
    counted = Counter(word for sentence in sentences for word in sentence)
    return [word for word, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:number]]


def next_word_examples(
    train: Sentences, test: Sentences, vocabulary: list[str], length: int, test_examples: int | None
) -> Examples:
    """test_examples: an evenly spaced choice of so many test sentences."""
    if test_examples is not None and test_examples < len(test):
        test = [test[i * len(test) // test_examples] for i in range(test_examples)]
    check_memory(
        3 * 8 * (length + 1) * (len(train) + len(test)),
        f"the windows of {len(train) + len(test)} sentences",
        "lower limit_users or max_examples_per_user",
    )
    return as_examples(
        _encode_users(train, vocabulary, length),
        _encode_users(test, vocabulary, length),
        len(vocabulary) + SPECIAL_TOKENS,
        "no user has a sentence to train on.",
    )


def encode(sentences: Iterable[Sequence[str]], vocabulary: Sequence[str], length: int) -> npt.NDArray[np.int64]:
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


def _encode_users(sentences: Sentences, vocabulary: list[str], length: int) -> UserExamples | None:
    if not sentences:
        return None
    rows = torch.from_numpy(encode((words for _, words in sentences), vocabulary, length))
    return UserExamples(rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), [user for user, _ in sentences])
