"""A tutorial page as one shell script: what a reader does who follows it from top to bottom.

- A fence ```sh is typed into a terminal; all of a page in the same one, so `cd` and variables last.
- A fence ```text below it is what the terminal then shows, as doctest compares it: `...` stands for anything.
- Any other fence below a line that ends with "`NAME`:" is the content of that file.
- Fences without a language or with ```bash are not executed.

A command fails only where the page shows an error.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./-]+)`:\n\n?\Z")
MARK = "--- block "
SHOWN_LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    line: int
    script: str
    expected: str
    """What it prints; empty: not compared."""

    @property
    def fails(self) -> bool:
        return re.search(r"^(error|\w*Error):", self.expected, re.MULTILINE) is not None


def blocks_of(text: str) -> list[Block]:
    blocks: list[Block] = []
    for fence in FENCE.finditer(text):
        language, content = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        file = FILE.search(text[: fence.start()])
        if language in ("", "bash"):
            continue
        if language == "text":
            assert blocks, f"line {line}: output without a command"
            assert not blocks[-1].expected, f"line {line}: a second output of one command"
            blocks[-1] = blocks[-1]._replace(expected=content)
        elif file:
            blocks.append(Block(line, f"cat > {shlex.quote(file[1])} <<'END OF FILE'\n{content}END OF FILE\n", ""))
        else:
            assert language == "sh", f"line {line}: the line before this fence names no file"
            blocks.append(Block(line, content, ""))
    return blocks


def script_of(blocks: list[Block]) -> str:
    """Ends at the first command that fails where no error is shown, or that does not fail where one is."""
    parts = ["exec 2>&1"]
    for number, block in enumerate(blocks):
        parts.append(f"echo '{MARK}{number}'")
        if block.fails:
            parts += ["set +e", block.script, "[ $? -ne 0 ] || exit 99"]
        else:
            parts += ["set -e", block.script]
    return "\n".join(parts)


def walk(text: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Execute a page in an empty folder; raises AssertionError for what is not as the page says."""
    blocks = blocks_of(text)
    said, code = played(script_of(blocks), folder, environment() | dict(env or {}))
    found = dict(part.split("\n", 1) for part in said.split(MARK)[1:])
    for number, block in enumerate(blocks):
        where = f"line {block.line} of the page:\n{block.script}"
        assert str(number) in found, f"never came to {where}"
        shown = found[str(number)]
        assert str(number + 1) in found or (number + 1 == len(blocks) and code == 0), f"{where}\nended with:\n{shown}"
        if block.expected and not doctest.OutputChecker().check_output(block.expected, shown, SHOWN_LOOSELY):
            raise AssertionError(f"{where}\nshould print:\n{block.expected}\nbut printed:\n{shown}")


def played(script: str, folder: Path, env: Mapping[str, str]) -> tuple[str, int]:
    """What bash printed, and its exit code. Nothing that it started is left."""
    with TemporaryFile("w+") as output:  # a pipe would wait for what was started in the background, too
        shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdout=output, start_new_session=True)
        try:
            shell.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        output.seek(0)
        return output.read(), shell.returncode


def environment() -> dict[str, str]:
    """A terminal of 80 columns, in which the environment of driftless was activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
