"""What the command line shows when a command fails: the one place where errors become a message and an exit code."""

from __future__ import annotations

import errno
import traceback
from typing import NamedTuple

from driftless.config.user_errors import own_traceback
from driftless.errors import InputError, WorkerDied, is_out_of_memory
from driftless.runs.run import Interrupted

BUG, MISTAKE, DIVERGED, MACHINE, INTERRUPTED = 1, 2, 3, 4, 130
"""The exit codes; docs/experiments.md explains them."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM)
"""What ends a command that was given nothing wrong."""
REMEDIES = {
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "it is a link that leads back to itself; choose another path",
    errno.EACCES: "choose a place that you may use",
    errno.EPERM: "choose a place that you may use",
    errno.EROFS: "choose a place that can be written",
    errno.EIO: "check the disk, then repeat the command, or continue a run that had begun with driftless resume",
}
FREE_SPACE = "make room, then repeat the command, or continue a run that had begun with driftless resume"
STORAGES = ("sqlalchemy", "optuna")
"""Packages whose errors are about the database of a search."""


class Failure(NamedTuple):
    code: int
    message: str
    traceback: str = ""
    """Of the user's own code, or of all code where the fault is ours."""


def explain(error: BaseException) -> Failure:
    if isinstance(error, (Interrupted, KeyboardInterrupt)):
        return Failure(INTERRUPTED, str(error) or "stopped.")
    if isinstance(error, InputError):
        return Failure(MISTAKE, str(error), own_traceback(error.__cause__))
    if isinstance(error, WorkerDied):
        return Failure(MACHINE, str(error))
    if own := own_traceback(error):
        return Failure(BUG, f"your code raised {short(error)}{doing(error)}.", own)
    if isinstance(error, OSError):
        return Failure(MACHINE if error.errno in FULL else MISTAKE, about_file(error))
    if is_out_of_memory(error):
        return Failure(
            MACHINE,
            f"the memory is not enough{doing(error)} ({str(error).splitlines()[0] if str(error) else 'no details'}); "
            "use a smaller cohort, batch size or model, engine.memory below 1, or a machine with more memory.",
        )
    if type(error).__module__.partition(".")[0] in STORAGES:
        reason = str(error.__cause__ or error).splitlines()[0]
        full = "disk I/O" in reason or "is full" in reason
        remedy = FREE_SPACE if full else "put it back, or begin another search with output=FOLDER"
        return Failure(MACHINE if full else MISTAKE, f"the database of the search cannot be used: {reason}; {remedy}.")
    message = (
        f"driftless failed{doing(error)}: {short(error)}. This is a bug of driftless; report it with the lines above."
    )
    return Failure(BUG, message, "".join(traceback.format_exception(error)))


def short(error: BaseException) -> str:
    return traceback.format_exception_only(error)[0].strip()


def about_file(error: OSError) -> str:
    reason = error.strerror or str(error)
    what = f"'{error.filename}' cannot be used" if error.filename else "the output cannot be written"
    remedy = FREE_SPACE if error.errno in FULL else "choose another path"
    return f"{what}: {reason[:1].lower()}{reason[1:]}; {REMEDIES.get(error.errno or 0, remedy)}."


def doing(error: BaseException) -> str:
    """ " while driftless was computing round 3", from the notes that `errors.doing` has left."""
    notes = getattr(error, "__notes__", [])
    return f" while {notes[0]}" if notes else ""
