"""Worker processes that obey their parent: they never hear Ctrl-C, and they end when it does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.connection import wait


@contextmanager
def ctrl_c_is_ours() -> Generator[None]:
    """Processes started here never hear Ctrl-C, not even while they import: the parent decides what it means."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever. Its run is resumed like any killed one."""
    threading.Thread(target=_end, daemon=True).start()


def _end() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
