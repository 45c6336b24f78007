"""Free memory, so that data which cannot fit are refused before they are decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from driftless.errors import InputError, is_out_of_memory

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes"
"""Files of a control group of version 1."""


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise unless `needed` bytes are free; on systems that do not report free memory nothing is checked."""
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(f"{what} need {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free; {remedy}.")


@contextmanager
def fitting(what: str, remedy: str) -> Generator[None]:
    """Where the bytes are not known before, running out of memory is the user's error, too."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(f"{what} do not fit into the memory ({error}); {remedy}.") from None


def free_memory() -> int | None:
    """Bytes that this process can still allocate on this machine and within its container; None if unknown."""
    amounts = [amount for amount in (_free_on_machine(), _free_in_container()) if amount is not None]
    return max(0, min(amounts)) if amounts else None


def _free_on_machine() -> int | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    return None


def _free_in_container() -> int | None:
    amounts = [amount for amount in map(_free_in_group, _groups()) if amount is not None]
    return min(amounts, default=None)


def _groups() -> list[Path]:
    """The control groups of this process and those around it, of either version."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = GROUPS / controllers
                group = root / path.lstrip("/")
                found += [group, *(parent for parent in group.parents if parent.is_relative_to(root))]
    return found


def _free_in_group(group: Path) -> int | None:
    """Pages of files are given back when memory is needed, so they are free."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # ValueError: the limit is "max"
        limit, used = ("memory.max", "memory.current") if (group / "memory.max").exists() else VERSION_1
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = sum(int(stat.get(f"total_{name}", stat[name])) for name in ("active_file", "inactive_file"))
        return int((group / limit).read_text()) - int((group / used).read_text()) + files
    return None
