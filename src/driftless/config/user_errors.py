"""Errors in users' own files: the part of a traceback that is theirs."""

from __future__ import annotations

import traceback
from types import TracebackType

from driftless.engine.fingerprint import MODULE_PREFIX

KEPT = "own_traceback"


def own_traceback(error: BaseException | None) -> str:
    """From the first line of the user's own file on; empty if no line of such a file took part."""
    if error is None:
        return ""
    own = first_own(error.__traceback__)
    if own or isinstance(error, SyntaxError):
        return "".join(traceback.format_exception(type(error), error, own, chain=False))
    return getattr(error, KEPT, "")


def keep_own_traceback(error: BaseException) -> None:
    """As text, before the error goes to another process: the lines themselves stay behind."""
    if text := own_traceback(error):
        setattr(error, KEPT, text)


def first_own(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and not str(trace.tb_frame.f_globals.get("__name__")).startswith(MODULE_PREFIX):
        trace = trace.tb_next
    return trace
