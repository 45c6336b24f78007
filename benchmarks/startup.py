"""How long it takes from the start of a command, or of `simulate`, until the first round on the embedded digits begins.

    python benchmarks/startup.py [--quick]

Each value comes from a fresh process. Of `driftless run` the clock starts with the process; the first round begins when
its line of metrics is there, minus the seconds that the round itself reports. Importing torch alone is timed beside it.
Of `driftless.simulate` the import is not counted; the first round begins at its end minus the fastest later round, so
whatever the first round does only once counts as start-up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from measure import HERE, environment_of, judged, publish, quartiles, quick_from_command_line, say

ROUNDS = 12
COMMAND_LIMIT, SIMULATE_LIMIT = 1.5, 2.0
SETTINGS = ("data=digits", "clients=100", "model=mlp", "cohort=10", f"rounds={ROUNDS}", "run.evaluate_every=0")

Values = dict[str, float]


def one_start() -> Values:
    """In this process; call it once."""
    import driftless

    ends = list[float]()
    begin = time.perf_counter()
    federation = driftless.load("digits", clients=100, partition="dirichlet", alpha=0.3, seed=0)
    loaded = time.perf_counter()
    driftless.simulate(
        "fedavg",
        federation,
        "mlp",
        rounds=ROUNDS,
        cohort=10,
        local=driftless.LocalTraining(lr=0.1, epochs=5, batch_size=10),
        evaluate_every=0,
        on_round=lambda _: ends.append(time.perf_counter()),
    )
    later = min(after - before for before, after in pairwise(ends))
    return {
        "simulate: data loaded": loaded - begin,
        "simulate: first round begins": ends[0] - later - begin,
        "simulate: fastest later round": later,
    }


def in_a_fresh_process() -> Values:
    command = [sys.executable, __file__, "--one"]
    done = subprocess.run(command, cwd=HERE, env=environment_of(sys.executable), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def of_the_command() -> Values:
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "run" / "metrics.jsonl"
        words = [sys.executable, "-m", "driftless", "run", *SETTINGS, f"output={metrics.parent}", "--quiet"]
        begin = time.perf_counter()
        process = subprocess.Popen(words, cwd=HERE, env=environment_of(sys.executable), stdout=subprocess.DEVNULL)
        while not (metrics.exists() and metrics.read_text().count("\n")):
            if process.poll() is not None:
                raise SystemExit(f"{' '.join(words)} ended with code {process.returncode} before its first round.")
            time.sleep(0.002)
        ended = time.perf_counter() - begin
        process.wait()
        first = json.loads(metrics.read_text().splitlines()[0])
    return {"command: first round begins": ended - first["seconds"]}


def of_importing_torch() -> Values:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], cwd=HERE, env=environment_of(sys.executable), check=True)
    return {"importing torch alone": time.perf_counter() - begin}


def main() -> None:
    quick = quick_from_command_line(__doc__)
    values = dict[str, list[float]]()
    ways: tuple[Callable[[], Values], ...] = (of_the_command, of_importing_torch, in_a_fresh_process)
    turns = 2 if quick else 7
    for turn in range(turns):
        say(f"  turn {turn + 1} of {turns}")
        for way in ways:
            for label, value in way().items():
                values.setdefault(label, []).append(value)
    times = []
    for label, seconds in values.items():
        low, high = quartiles(seconds)
        times.append(
            {"label": label, "median": statistics.median(seconds), "low": low, "high": high, "rounds": len(seconds)}
        )

    def claim(key: str, label: str, limit: float | None) -> dict[str, object]:
        low, high = quartiles(values[label])
        value = statistics.median(values[label])
        return {**judged(f"startup/{key}", label, value, limit, at_most=True, unit="s"), "low": low, "high": high}

    claims = [
        claim("command", "command: first round begins", COMMAND_LIMIT),
        claim("torch", "importing torch alone", None),
        claim("simulate", "simulate: first round begins", SIMULATE_LIMIT),
    ]
    section = {"row": "startup", "title": "start-up on the embedded digits", "times": times, "claims": claims}
    publish("startup", [section], quick=quick)


if __name__ == "__main__":
    if sys.argv[1:] == ["--one"]:
        print(json.dumps(one_start()))
    else:
        main()
