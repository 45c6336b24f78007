"""How much memory a block of clients needs, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path

from driftless.engine.graph.record import Layout, Recording, extent

SHARE_OF_FREE = 0.25


def total(recording: Recording) -> int:
    """Bytes of all arguments and results of a recorded call.

    While it is recorded they are all alive; replayed, it needs less.
    """
    size: dict[int, int] = {}
    for node in recording.graph.nodes:
        look: Layout | None = node.meta.get("layout")
        if look is not None:
            own = (look.offset + extent(look)) * look.dtype.itemsize
            size[look.storage] = max(size.get(look.storage, 0), own)
    return sum(size.values())


def free() -> int:
    """Bytes that this process can still take, by the machine and, in a container, by its limit."""
    amounts = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")]
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        amounts = [int(lines["MemAvailable"].split()[0]) * 1024]
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if limit != "max":
            amounts.append(int(limit) - used)
    except (OSError, KeyError, ValueError):
        pass  # another system: what the C library knows is enough
    return max(0, min(amounts))
