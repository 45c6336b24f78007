"""One line on the terminal while torch is imported, which takes seconds.

Imported before everything else of the package, and itself only from the standard library: whoever types a command
sees at once that it has begun. In Python nothing is shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

LINE = "driftless is starting ..."
SLOW = ("run", "resume", "compare", "tune", "reproduce")
SILENT = ("--quiet", "-q", "--json", "--help")


def is_slow_command(argv: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether Python was started as `driftless run ...` or `python -m driftless run ...`; `whole`: sys.orig_argv."""
    program = PurePath(whole[-len(argv)]).stem if 0 < len(argv) <= len(whole) else ""
    return program == "driftless" and argv[1:2] != [] and argv[1] in SLOW and not set(SILENT) & set(argv)


def show() -> bool:
    """Whether it is shown: only where someone looks."""
    first = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0"  # of the ranks of a launcher
    out = sys.stderr if first and is_slow_command(sys.argv, sys.orig_argv) else None
    if out is None or not out.isatty():
        return False
    out.write(LINE)
    out.flush()
    return True


def erase() -> None:
    """Before anything else is shown."""
    global _shown
    if _shown and sys.stderr is not None:
        sys.stderr.write(f"\r{' ' * len(LINE)}\r")
        sys.stderr.flush()
    _shown = False


_shown = show()
