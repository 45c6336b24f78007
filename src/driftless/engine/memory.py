"""How much memory a block of clients needs, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from driftless.engine.record import Layout, Recording
from driftless.engine.rewrite import extent

SHARE_OF_FREE = 0.25


def peak(recording: Recording) -> int:
    """Bytes that are alive at once during a recorded call, its arguments included."""
    nodes = list(recording.graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    size: dict[int, int] = {}
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for node in nodes:
        look: Layout | None = node.meta.get("layout")
        if look is None:
            continue
        bytes_ = (look.offset + extent(look)) * torch.empty(0, dtype=look.dtype).element_size()
        size[look.storage] = max(size.get(look.storage, 0), bytes_)
        begin.setdefault(look.storage, 0 if node.op != "call_function" else position[node])
        last = len(nodes) if node.op != "call_function" else max((position[u] for u in node.users), default=0)
        end[look.storage] = max(end.get(look.storage, 0), last)
    change = [0] * (len(nodes) + 2)
    for storage, bytes_ in size.items():
        change[begin[storage]] += bytes_
        change[end[storage] + 1] -= bytes_
    alive = most = 0
    for difference in change:
        alive += difference
        most = max(most, alive)
    return most


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
