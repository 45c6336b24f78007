"""What the fuzzers share: how many cases, values that nobody should give, and what may happen then.

`make test` plays about 300 cases, the same every time; `make fuzz` plays 10,000 that differ from call to call.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from driftless import cli, failures
from driftless.errors import Diverged, InputError

CASES = int(os.environ.get("DRIFTLESS_FUZZ_CASES", "300"))
SECONDS = 60
"""A case that takes longer hangs."""
ALLOWED_CODES = {0, failures.MISTAKE, failures.DIVERGED}
"""Nothing given is an excuse for a bug (1) or a lack of memory (4)."""

TINY = {
    "data": {"name": "digits", "clients": 20},
    "model": {"name": "logistic"},
    "local": {"batch_size": 40},
    "engine": {"workers": 1},
    "run": {"rounds": 1, "cohort": 2},
}
"""A run of a few milliseconds."""

ABSURD: list[Any] = [
    0, -1, 1, 2, True, False, 0.5, -0.5, 1e308, -1e308, 1e-308, float("inf"), float("nan"), 10**12, 10**20, 10**30,
    10**40, -(10**40), "", " ", "none", "auto", "fedavg", "x" * 300, "a/b", "..", "/proc/x", "[/bold]", "'", '"', "\\",
    "\n", "数", "\x00", "\udcff", "\x1b[31m", [], [[]], [0], [[0]], [[0, 1]], ["a"], [1e308], [[10**20]], {}, {"a": 1},
]  # fmt: skip


def share(part: float) -> settings:
    """So many of all cases."""
    fixed = CASES <= 300
    return settings(
        max_examples=max(1, round(CASES * part)),
        derandomize=fixed,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=not fixed,
    )


values = st.sampled_from(ABSURD) | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=8)


@contextmanager
def empty_folder() -> Generator[Path]:
    """Deep enough for `..` to be empty, too."""
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "deep" / "here"
        folder.mkdir(parents=True)
        yield folder


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Hangs(BaseException):
    """The case takes too long."""


@contextmanager
def time_limit() -> Generator[None]:
    def stop(*_: object) -> None:
        raise Hangs(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def play(folder: Path, words: list[str]) -> Ended:
    """The command line in this process, in a folder."""
    out, err = io.StringIO(), io.StringIO()
    argv, sys.argv = sys.argv, ["driftless", *words]
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), time_limit():
        try:
            cli.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv = argv
    return Ended(int(code or 0), out.getvalue(), err.getvalue())


def assert_explained(folder: Path, words: list[str]) -> Ended:
    """The command does what it should, or says in one message why it does not."""
    ended = play(folder, words)
    said = f"driftless {' '.join(map(repr, words))}\n{ended.out[-2000:]}{ended.err[-4000:]}"
    assert ended.code in ALLOWED_CODES, said
    assert "Traceback" not in ended.out + ended.err, said
    assert ended.code != failures.MISTAKE or "rror" in ended.err or "Usage:" in ended.out, said
    return ended


@contextmanager
def only_documented_errors() -> Generator[None]:
    """In Python nothing but InputError and Diverged is raised."""
    try:
        with time_limit():
            yield
    except (InputError, Diverged):
        pass
    except Exception as error:
        raise AssertionError("".join(traceback.format_exception(error)[-12:])) from error
