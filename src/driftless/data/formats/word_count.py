"""Lists of words and counts: `word<tab>count` per line, the most frequent first (`stackoverflow.word_count` of TFF)."""

from __future__ import annotations

from pathlib import Path

from driftless.data.formats.archive import open_text
from driftless.data.formats.file_errors import report_damage
from driftless.errors import InputError


def read_words(path: Path, most: int) -> list[str]:
    """The first `most` words."""
    words: list[str] = []
    with report_damage(path, "a list of words and counts"), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if len(words) == most:
                break
            entry = line.split()
            if len(entry) != 2 or not entry[1].isdigit():
                raise InputError(
                    f"line {number} of {path} is {line.strip()[:40]!r}; it should be a word and its count."
                )
            words.append(entry[0])
    if not words:
        raise InputError(f"{path} is empty; get it again, or remove it to have the words counted.")
    return words
