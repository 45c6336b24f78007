"""How long it takes until the first round of a run on the embedded digits begins; the import is not counted.

    python benchmarks/startup.py [--quick]

Each value comes from a fresh process: load the digits, start `driftless.simulate`. The beginning of the first round
cannot be seen from outside; it is taken as its end minus the fastest later round. So whatever the first round does
only once (choosing the engine, compiling) counts as start-up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise

from measure import HERE, environment_of, judged, publish, quartiles, quick_from_command_line

ROUNDS = 12
LIMIT = 2.0

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
    return {"load": loaded - begin, "first round begins": ends[0] - later - begin, "fastest later round": later}


def in_a_fresh_process() -> Values:
    command = [sys.executable, __file__, "--one"]
    done = subprocess.run(command, cwd=HERE, env=environment_of(sys.executable), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    quick = quick_from_command_line(__doc__)
    starts = [in_a_fresh_process() for _ in range(2 if quick else 7)]
    times = []
    for label in starts[0]:
        values = [start[label] for start in starts]
        low, high = quartiles(values)
        times.append(
            {"label": label, "median": statistics.median(values), "low": low, "high": high, "rounds": len(values)}
        )
    begins = statistics.median(start["first round begins"] for start in starts)
    claim = judged("startup/digits", "until the first round begins", begins, LIMIT, at_most=True, unit="s")
    section = {"row": "startup", "title": "start-up on the embedded digits", "times": times, "claims": [claim]}
    publish("startup", [section], quick=quick)


if __name__ == "__main__":
    if sys.argv[1:] == ["--one"]:
        print(json.dumps(one_start()))
    else:
        main()
