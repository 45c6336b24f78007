"""JSON Lines: a text file with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftless.data.formats.archive import open_text
from driftless.data.formats.file_errors import report_damage
from driftless.errors import InputError


def read_jsonl(path: Path, content: str, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """All objects of the file, each of which must have these fields; `content` says in errors what they are."""
    expected = f"a file of {content} ({', '.join(fields)})"
    with report_damage(path, expected), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            value = json.loads(line)
            lacking = [field for field in fields if not isinstance(value, dict) or field not in value]
            if lacking:
                raise InputError(
                    f"line {number} of {path} has no '{lacking[0]}'; {expected} has an object a line with these fields."
                )
            yield value
