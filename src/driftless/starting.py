"""While a command imports torch, which takes seconds: one line on the terminal, and no garbage collection.

Imported before everything else of the package, and itself only from the standard library: whoever types a command
sees at once that it has begun. In Python nothing is shown or switched off.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

LINE = "driftless is starting ..."
SLOW = ("run", "resume", "compare", "tune", "reproduce")
SILENT = ("--quiet", "-q", "--json", "--help")


def is_command(argv: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether Python was started as `driftless ...` or `python -m driftless ...`; `whole`: sys.orig_argv."""
    return 0 < len(argv) <= len(whole) and PurePath(whole[-len(argv)]).stem == "driftless"


def is_slow_command(argv: Sequence[str], whole: Sequence[str]) -> bool:
    return is_command(argv, whole) and argv[1:2] != [] and argv[1] in SLOW and not set(SILENT) & set(argv)


def show() -> bool:
    """Whether it is shown: only where someone looks."""
    first = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0"  # of the ranks of a launcher
    out = sys.stderr if first and is_slow_command(sys.argv, sys.orig_argv) else None
    if out is None or not out.isatty():
        return False
    out.write(LINE)
    out.flush()
    return True


def done() -> None:
    """All is imported; called before anything else is shown."""
    global _shown
    gc.enable()
    if _shown and sys.stderr is not None:
        sys.stderr.write(f"\r{' ' * len(LINE)}\r")
        sys.stderr.flush()
    _shown = False


_shown = show()
if is_command(sys.argv, sys.orig_argv):
    gc.disable()  # it takes a tenth of the time of the imports, and finds nothing
