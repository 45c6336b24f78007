"""Sent140: positive and negative tweets as bags of words, one client per account (FedGBO, appendix B.2).

A bag is the counts of the most frequent words of the training part, divided by their sum; a tweet without any of these
words is left out. Words are counted in the training part only.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from email.utils import parsedate
from pathlib import Path

import numpy as np
import torch

from driftless.data import fetch
from driftless.data.examples import Examples, UserExamples, as_examples, test_size
from driftless.data.formats import leaf
from driftless.data.formats.jsonl import read_jsonl
from driftless.data.memory import check_memory
from driftless.data.preprocessing.words import most_frequent_words
from driftless.errors import InputError, check_choice, check_whole
from driftless.random import stream

USERS = fetch.RemoteFile("sent140_users.jsonl.gz", advice=leaf.advice("sent140"))
LABELS = {0: 0, 1: 1, 4: 1}  # Sentiment140 has 4 for positive, LEAF's files have 1
DATE, TEXT = 1, 4  # positions in LEAF's x
WORD = re.compile(r"[\w']+|[.,!?;]")

Tweet = tuple[str, str, int]  # (user, text, label)
Dated = list[tuple[tuple[int, ...], Tweet]]  # the tweets of one user, each with its date


def load(
    words: int = 5000, bag: str = "normalised", min_tweets: int = 1, split: str = "date", source: str = "auto"
) -> Examples:
    """bag: "normalised" (counts that sum to 1), "counts" or "binary". min_tweets: users with fewer are left out.

    split: which fifth of a user's tweets is for the test, the last by "date" or a "random" one, the same in every run;
    LEAF's folders train and test are used as they are.
    source: "auto" (LEAF's files if found), "leaf" or "users" (`sent140_users.jsonl.gz`).
    """
    check_whole("words", words, 1)
    check_whole("min_tweets", min_tweets, 1)
    check_choice("bag", bag, ("normalised", "counts", "binary"))
    check_choice("split", split, ("date", "random"))
    check_choice("source", source, ("auto", "leaf", "users"))
    if source == "leaf" or (source == "auto" and leaf.are_here("sent140")):
        train, test = _from_leaf(split)
    else:
        train, test = _split_users(_from_users(fetch.obtain("sent140", USERS)), split)
    number = Counter(user for user, _, _ in (*train, *test))
    train, test = ([tweet for tweet in part if number[tweet[0]] >= min_tweets] for part in (train, test))
    train_words, test_words = ([tokenise(text) for _, text, _ in tweets] for tweets in (train, test))
    place = {word: i for i, word in enumerate(most_frequent_words(train_words, words))}
    tweets = len(train) + len(test)
    check_memory(
        4 * words * tweets, f"the bags of {words} words of {tweets:,} tweets", "lower words or raise min_tweets"
    )
    return as_examples(
        _bags(train, train_words, place, words, bag),
        _bags(test, test_words, place, words, bag),
        2,
        f"no user has min_tweets={min_tweets} tweets; lower it.",
    )


def is_here() -> bool:
    return leaf.are_here("sent140") or fetch.find("sent140", USERS.name) is not None


def tokenise(text: str) -> list[str]:
    return WORD.findall(html.unescape(text).lower())


def _bags(
    tweets: list[Tweet], lists: list[list[str]], place: dict[str, int], words: int, bag: str
) -> UserExamples | None:
    known = [[place[word] for word in tweet if word in place] for tweet in lists]
    kept = [i for i, columns in enumerate(known) if columns]
    if not kept:
        return None
    rows = np.repeat(np.arange(len(kept)), [len(known[i]) for i in kept])
    columns = np.array([column for i in kept for column in known[i]], dtype=np.int64)
    inputs = np.zeros((len(kept), words), dtype=np.float32)
    np.add.at(inputs, (rows, columns), 1.0)
    if bag == "binary":
        np.minimum(inputs, 1.0, out=inputs)
    elif bag == "normalised":
        inputs /= inputs.sum(axis=1, keepdims=True)
    labels = torch.tensor([tweets[i][2] for i in kept], dtype=torch.int64)
    return UserExamples(torch.from_numpy(inputs), labels, [tweets[i][0] for i in kept])


def _from_users(path: Path) -> Iterator[Dated]:
    for entry in read_jsonl(path, "tweets by user", ("user", "labels", "texts", "dates")):
        name, (labels, texts, dates) = str(entry["user"]), (entry[key] for key in ("labels", "texts", "dates"))
        where = f"user {name} in {path}"
        if not len(labels) == len(texts) == len(dates):
            raise InputError(
                f"{where} has {len(labels)} labels, {len(texts)} texts and {len(dates)} dates; "
                "give one of each for every tweet."
            )
        rows = zip(dates, texts, labels, strict=True)
        yield [(_date(date, where), (name, text, _label(label, where))) for date, text, label in rows]


def _from_leaf(split: str) -> tuple[list[Tweet], list[Tweet]]:
    train_path, test_path = leaf.locate("sent140")
    if test_path is None:
        return _split_users(map(_dated, leaf.read_users(train_path)), split)
    train, test = (
        [tweet for user in leaf.read_users(path) for tweet in _tweets(user)] for path in (train_path, test_path)
    )
    return train, test


def _tweets(user: leaf.User) -> Iterator[Tweet]:
    for x, y in zip(user.x, user.y, strict=True):
        if not isinstance(x, list) or len(x) <= TEXT or not isinstance(x[TEXT], str):
            raise user.error(f"is not tweets: each is a list whose entry {TEXT} is the text")
        yield user.name, x[TEXT], _label(y, f"user '{user.name}' in {user.path}")


def _dated(user: leaf.User) -> Dated:
    where = f"user '{user.name}' in {user.path}"
    return [(_date(x[DATE], where), tweet) for tweet, x in zip(_tweets(user), user.x, strict=True)]


def _split_users(users: Iterable[Dated], split: str) -> tuple[list[Tweet], list[Tweet]]:
    """A fifth of each user's tweets is for the test; a user with fewer than five has none there."""
    train: list[Tweet] = []
    test: list[Tweet] = []
    rng = stream(0, "sent140")
    for tweets in users:
        ordered = [tweet for _, tweet in sorted(tweets, key=lambda dated: dated[0])]
        number = test_size(len(ordered))
        last = range(len(ordered) - number, len(ordered))
        for_test = set(last if split == "date" else rng.permutation(len(ordered))[:number].tolist())
        for i, tweet in enumerate(ordered):
            (test if i in for_test else train).append(tweet)
    return train, test


def _label(value: object, where: str) -> int:
    try:
        return LABELS[int(value)]  # pyright: ignore[reportArgumentType]
    except (KeyError, ValueError, TypeError):
        raise InputError(
            f"{where} has the label {value!r}; a tweet is 0 (negative), or 1 or 4 (positive): correct it or remove it."
        ) from None


def _date(value: object, where: str) -> tuple[int, ...]:
    """A sortable tuple; the time zone is ignored, because all dates of Sentiment140 have the same."""
    date = parsedate(value) if isinstance(value, str) else None
    if date is None:
        raise InputError(f"{where} has the date {value!r}; write it like 'Sun May 17 04:30:56 PDT 2009'.")
    return date
