"""What a large population costs: 100,000 clients with 10 examples each.

    python benchmarks/population.py [--quick]

Three questions: how long the set-up takes, how much memory it needs beyond the data, and whether a round of 10 clients
costs the same whether they are drawn from 1,000 or from 100,000. Set-up and memory are measured in fresh processes:
with all examples in two arrays (`from_assignment`), and with a pair of arrays for each client (`from_clients`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import (
    HERE,
    Claim,
    Contender,
    compare,
    environment_of,
    judged,
    publish,
    quick_from_command_line,
    say,
    settle,
    summary,
)
from rows import ROWS, SMALL, build, images

LARGE = ROWS["population-100000"]
SECONDS = 10.0
MEMORY = 1.5
ROUND = 1.2  # "the same": a choice from a larger population may cost a little
STATUS = Path("/proc/self/status")


def memory(entry: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the highest."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(entry))
    return 1024 * int(line.split()[1])


def forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def one_setup(how: str) -> dict[str, float]:
    """In this process; call it once. Everything from the arrays to the end of two rounds counts as set-up."""
    import driftless

    small = ROWS["population-1000"]
    inputs, targets = images(small)
    tiny = driftless.Federation.from_clients(list(zip(inputs, targets, strict=True)))
    local = driftless.LocalTraining(lr=LARGE.lr, epochs=LARGE.epochs, batch_size=LARGE.batch)

    def run(federation: driftless.Federation) -> None:
        driftless.simulate(
            "fedavg", federation, build(LARGE), rounds=2, cohort=LARGE.cohort, local=local, evaluate_every=0
        )

    run(tiny)  # torch takes memory of its own when it first computes; that does not depend on the population

    empty = memory("VmRSS")
    inputs, targets = images(LARGE)
    data = inputs.nbytes + targets.nbytes
    pairs = list(zip(inputs, targets, strict=True)) if how == "from_clients" else []
    before = memory("VmRSS")
    forget_the_peak()
    begin = time.perf_counter()
    if how == "from_clients":
        federation = driftless.Federation.from_clients(pairs)
    else:
        owner = np.repeat(np.arange(LARGE.clients), LARGE.examples)
        federation = driftless.Federation.from_assignment(
            inputs.reshape(-1, *LARGE.shape), targets.reshape(-1), owner, LARGE.clients
        )
    run(federation)
    seconds = time.perf_counter() - begin
    peak = memory("VmHWM")
    return {"seconds": seconds, "beyond the data": (peak - before) / data, "with the data": (peak - empty) / data}


def in_a_fresh_process(how: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", how]
    done = subprocess.run(command, cwd=HERE, env=environment_of(sys.executable), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def setup_section(quick: bool) -> dict[str, Any]:
    times, claims = list[dict[str, Any]](), list[dict[str, Any]]()
    for how in ("from_assignment", "from_clients"):
        say(f"population: {how}")
        runs = [in_a_fresh_process(how) for _ in range(1 if quick else 3)]
        middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        seconds = [run["seconds"] for run in runs]
        label = f"set-up and two rounds, {how}"
        times.append(
            {
                "label": label,
                "median": middle["seconds"],
                "low": min(seconds),
                "high": max(seconds),
                "rounds": len(runs),
            }
        )
        key = f"population/{how}"
        claims += [
            judged(f"{key}-seconds", label, middle["seconds"], SECONDS, at_most=True, unit="s"),
            judged(f"{key}-memory", f"peak memory beyond the data / data, {how}", middle["beyond the data"], MEMORY,
                   at_most=True),
            judged(f"{key}-total", f"peak memory with the data / data, {how}", middle["with the data"],
                   MEMORY if how == "from_assignment" else None, at_most=True),
        ]  # fmt: skip
    return {"row": "population", "title": f"population: {LARGE}", "times": times, "claims": claims}


def round_section(quick: bool) -> dict[str, Any]:
    """Both populations in the same rotation."""
    small, large = f"10 of {SMALL.clients:,}", f"10 of {LARGE.clients:,}"
    rounds = 50 if quick else 200
    timings = compare(
        [Contender(small, SMALL, "ours", rounds=rounds), Contender(large, LARGE, "ours", rounds=rounds)],
        turns=2 if quick else 6,
    )
    claim = Claim("round", "round of 10 of 100,000 / round of 10 of 1,000", large, (small,), ROUND, at_most=True)
    return {
        "row": "population-round",
        "title": "population: the cost of a round",
        "times": [summary(timing) for timing in timings.values()],
        "claims": [settle("population", claim, timings)],
    }


def main() -> None:
    quick = quick_from_command_line(__doc__)
    publish("population", [setup_section(quick), round_section(quick)], quick=quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one_setup(sys.argv[2])))
    else:
        main()
