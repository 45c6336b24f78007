"""The most frequent words of a text, for the data sets that know words by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def most_frequent(sentences: Iterable[Sequence[str]], number: int) -> list[str]:
    """By count; words that are equally frequent by the alphabet, so that the order of the files does not matter."""
    counted = Counter(word for sentence in sentences for word in sentence)
    return [word for word, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:number]]
