"""Programs in a pseudo-terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import IO, Any, NamedTuple


class Shown(NamedTuple):
    code: int
    text: str
    """What the terminal was sent, without colours."""

    @property
    def lines(self) -> list[str]:
        """Also those that were written over."""
        return [line for line in re.split(r"[\r\n]+", self.text) if line]


def in_a_terminal(*words: object, stdout: IO[Any] | None = None, cwd: Path | None = None) -> Shown:
    """`python WORDS`, with the terminal as its standard input, output and error; `stdout` may be a file instead."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, *map(str, words)], stdin=theirs, stdout=stdout or theirs, stderr=theirs, cwd=cwd,
        env={**environment, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())
    return Shown(child.wait(timeout=60), text)
