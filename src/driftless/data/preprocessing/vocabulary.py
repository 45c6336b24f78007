"""The vocabulary of a text: its most frequent words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def most_frequent_words(sentences: Iterable[Sequence[str]], number: int) -> list[str]:
    """By count, then alphabetically, so that the order of the sentences does not matter."""
    counted = Counter(word for sentence in sentences for word in sentence)
    return [word for word, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:number]]
