"""The same federation in the simulator, before there are nodes: python simulate.py [algorithm]."""

import sys

from federation.task import everybody, model

import driftless

algorithm = sys.argv[1] if len(sys.argv) > 1 else "adabest"
run = driftless.run(
    algorithm, everybody(), model, rounds=8, cohort=3, seed=0,
    local=driftless.LocalTraining(lr=0.1, epochs=2, batch_size=10), output=f"runs/simulated-{algorithm}",
)  # fmt: skip
for row in run.history:
    print(f"round {row['round']}: test accuracy {row['test_accuracy']:.3f}, {row['skipped']} clients left out")
