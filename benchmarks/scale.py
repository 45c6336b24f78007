"""A million clients, and data that do not fit into memory.

    python benchmarks/scale.py [--quick]

A round of AdaBest with 100 of 1,000,000 clients beside one with 100 of 1,000, client state in memory and on disk; and
10 GB of data in a mapped file, trained on by a process that may use 2 GB. Each run is a process of its own. The limit
is a control group of Linux, which only an administrator can make: elsewhere this part is left out, and says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measure import HERE, environment_of, judged, publish, quick_from_command_line, say

FEW, MANY, COHORT, ROUNDS = 1_000, 1_000_000, 100, 200
FEATURES = 784
MEMORY, RATIO = 2.0, 1.2
DATA, LIMIT = 10 * 10**9, 2 * 10**9
GROUPS = Path("/sys/fs/cgroup")
GIGABYTE = 10**9


def memory(entry: str) -> int:
    """Bytes of this process: VmHWM the most that was resident, RssAnon what the system cannot take back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(entry)).split()[1])


def rounds_of(federation: Any, rounds: int, store: str) -> list[float]:
    """Seconds of each round but the first."""
    import driftless

    ends: list[float] = []
    driftless.simulate(
        "adabest", federation, "logistic", rounds=rounds, cohort=COHORT, evaluate_every=0, progress=False,
        local=driftless.LocalTraining(lr=0.1, epochs=1, batch_size=10), engine=driftless.EngineSettings(store=store),
        on_round=lambda _: ends.append(time.perf_counter()),
    )  # fmt: skip
    return np.diff(ends).tolist()


def one_population(clients: int, store: str) -> dict[str, float]:
    """Two examples a client, in memory."""
    import driftless

    few = np.random.default_rng(0).standard_normal((2 * FEW, FEATURES), dtype=np.float32)
    tiny = driftless.Federation.from_assignment(few, np.arange(len(few)) % 10, np.repeat(np.arange(FEW), 2), FEW)
    rounds_of(tiny, 2, store)  # torch takes memory of its own when it first computes
    inputs = np.tile(few, (clients // FEW, 1))
    owner = np.repeat(np.arange(clients), 2)
    targets = np.arange(len(owner)) % 10
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    begin = time.perf_counter()
    federation = driftless.Federation.from_assignment(inputs, targets, owner, clients)
    seconds = rounds_of(federation, ROUNDS, store)
    setup = time.perf_counter() - begin - sum(seconds)
    return {"round": statistics.median(seconds), "beside the data": memory("VmHWM") - before, "set-up": setup}


def one_mapped(path: str, group: str) -> dict[str, float]:
    """In a group with a limit, which this process joins before anything else."""
    (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    import driftless
    from driftless.data import map_file

    begin = time.perf_counter()
    inputs = map_file(path)
    clients = len(inputs) // 10
    owner = np.repeat(np.arange(clients), 10)
    federation = driftless.Federation.from_assignment(inputs[: 10 * clients], owner % 10, owner, clients)
    setup = time.perf_counter() - begin
    seconds = rounds_of(federation, ROUNDS, "auto")
    return {"set-up": setup, "round": statistics.median(seconds), "anonymous": memory("RssAnon")}


def in_a_fresh_process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    environment = environment_of(sys.executable) | {"PYTHONPATH": str(HERE.parent / "src")}
    done = subprocess.run(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def population_section(quick: bool) -> dict[str, Any]:
    kinds = [(FEW, "memory"), (MANY, "memory"), (MANY, "disk")]
    runs: dict[tuple[int, str], list[dict[str, float]]] = {kind: [] for kind in kinds}
    for turn in range(1 if quick else 5):
        for kind in kinds:
            say(f"scale: turn {turn + 1}, {kind[0]:,} clients, {kind[1]}")
            runs[kind].append(in_a_fresh_process("population", *kind))
    times = [
        {
            "label": f"round of {COHORT} of {clients:,}, state {'in memory' if store == 'memory' else 'on disk'}",
            "median": statistics.median(run["round"] for run in found),
            "low": min(run["round"] for run in found),
            "high": max(run["round"] for run in found),
            "rounds": ROUNDS * len(found),
        }
        for (clients, store), found in runs.items()
    ]
    claims = list[dict[str, Any]]()
    for store in ("memory", "disk"):
        pairs = zip(runs[MANY, store], runs[FEW, "memory"], strict=True)
        ratio = statistics.median(many["round"] / few["round"] for many, few in pairs)
        most = max(run["beside the data"] for run in runs[MANY, store]) / GIGABYTE
        where = "in memory" if store == "memory" else "on disk"
        key, what = f"scale/{store}", f"round of {MANY:,} / of {FEW:,}, state {where}"
        claims += [
            judged(f"{key}-round", what, ratio, RATIO, at_most=True),
            judged(f"{key}-memory", f"resident beside the data, state {where}", most, MEMORY, at_most=True, unit="GB"),
        ]
    return {"row": "scale", "title": f"scale: AdaBest, logistic {FEATURES}-10", "times": times, "claims": claims}


@contextmanager
def limited_group(size: int) -> Generator[Path | None]:
    """A control group of either version that may use so many bytes; None where none can be made."""
    version_1 = (GROUPS / "memory").is_dir()
    group = GROUPS / ("memory" if version_1 else "") / f"driftless-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(str(size))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        group.rmdir()


def write_data(path: Path, size: int) -> None:
    """Real numbers, on the disk and no longer in memory."""
    block = np.random.default_rng(0).standard_normal((20_000, FEATURES), dtype=np.float32)
    rows = size // (FEATURES * 4)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (rows, FEATURES)}
        )  # fmt: skip
        for first in range(0, rows, len(block)):
            file.write(block[: rows - first])
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def mapped_section(quick: bool) -> dict[str, Any]:
    title = f"scale: {DATA // GIGABYTE} GB of mapped data, {LIMIT // GIGABYTE} GB of memory"
    with limited_group(LIMIT) as group, tempfile.TemporaryDirectory() as folder:
        if group is None:
            return {"row": "mapped", "title": f"{title} (not run: no control group can be made here)", "times": [],
                    "claims": []}  # fmt: skip
        say("scale: writing 10 GB")
        write_data(Path(folder) / "inputs.npy", DATA)
        say("scale: training on mapped data")
        run = in_a_fresh_process("mapped", Path(folder) / "inputs.npy", group)
    times = [
        {"label": label, "median": run[name], "low": run[name], "high": run[name], "rounds": rounds}
        for label, name, rounds in (("reading and checking all data", "set-up", 1), ("round", "round", ROUNDS))
    ]
    held = run["anonymous"] / GIGABYTE
    claim = judged("scale/mapped", "memory that cannot be given back", held, MEMORY, at_most=True, unit="GB")
    return {"row": "mapped", "title": title, "times": times, "claims": [claim]}


def main() -> None:
    quick = quick_from_command_line(__doc__)
    publish("scale", [population_section(quick), mapped_section(quick)], quick=quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        what, *given = sys.argv[2:]
        print(json.dumps(one_population(int(given[0]), given[1]) if what == "population" else one_mapped(*given)))
    else:
        main()
