"""The same from Python: python experiment.py. Run it again after it was interrupted: it continues."""

from algorithm import Damped
from model import Net
from objective import focal_loss, worst_class_accuracy

import driftless
from data import sensors

federation = sensors(clients=40)
common = {
    "rounds": 40,
    "cohort": 8,
    "local": driftless.LocalTraining(lr=0.1, epochs=3, batch_size=10),
    "loss": focal_loss,
    "metrics": ["f1", worst_class_accuracy],
}
print(federation.describe())

# Net, not Net(federation): each seed makes a model of its own, the same one when the script is run again.
best = driftless.tune(Damped(), federation, Net, trials=10, output="runs/search", **common)
print(best)

table = driftless.compare(
    {"fedavg": "fedavg", "scaffold": "scaffold", "damped": best.algorithm},
    federation, Net, seeds=3, output="runs/comparison", **common,
)  # fmt: skip
print(table)
print("wrote", driftless.report(["runs/comparison"], "report.html"))
