"""Chit-Chat: predict the next word of students' chat messages, one client per user.

A small stand-in for Stack Overflow: the messages are encoded exactly as its sentences.
"""

from __future__ import annotations

import re

from driftless.data import fetch
from driftless.data.examples import Examples, test_size
from driftless.data.formats.jsonl import read_jsonl
from driftless.data.preprocessing.words import Sentences, check_text_options, most_frequent_words, next_word_examples
from driftless.errors import InputError, check_whole

MESSAGES = fetch.RemoteFile(
    "chitchat_by_user.jsonl.gz",
    advice="regroup the messages of the Python package chitchat-dataset by sender, one JSON object a line with "
    "'user' and 'messages'",
)
TOKEN = re.compile(r"https?://\S+|[a-z0-9'-]+|[^\sa-z0-9'-]")


def load(
    words: int = 10_000,
    length: int = 20,
    min_messages: int = 1,
    max_examples_per_user: int | None = None,
    test_examples: int | None = None,
) -> Examples:
    """A message is a sentence; the last fifth of a user's messages is for the test."""
    check_text_options(words, length, max_examples_per_user, test_examples)
    check_whole("min_messages", min_messages, 1)
    train: Sentences = []
    test: Sentences = []
    path = fetch.obtain("chitchat", MESSAGES)
    for entry in read_jsonl(path, "messages by user", ("user", "messages")):
        name, messages = str(entry["user"]), entry["messages"][:max_examples_per_user]
        sentences = [(name, tokens[:length]) for message in messages if (tokens := tokenise(message))]
        if len(sentences) >= min_messages:
            cut = len(sentences) - test_size(len(sentences))
            train += sentences[:cut]
            test += sentences[cut:]
    if not train:
        raise InputError(f"no user in {path} has min_messages={min_messages} messages with words; lower it.")
    vocabulary = most_frequent_words((sentence for _, sentence in train), words)
    return next_word_examples(train, test, vocabulary, length, test_examples)


def is_here() -> bool:
    return fetch.find("chitchat", MESSAGES.name) is not None


def tokenise(text: str) -> list[str]:
    """As the sentences of Stack Overflow: lower case, ASCII, punctuation apart except ' and -, addresses as <URL>."""
    plain = text.lower().encode("ascii", "ignore").decode()
    return ["<URL>" if token.startswith(("http://", "https://")) else token for token in TOKEN.findall(plain)]
