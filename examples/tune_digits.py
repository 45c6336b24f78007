"""Choose the settings of the comparison in digits.toml: python examples/tune_digits.py (about ten minutes on two cores)

Every algorithm gets the same four learning rates, and three values of one parameter of its own if it has one. Each
point of this grid is trained with seeds 10 and 11, which the comparison does not use, on 80 of the 100 clients, and
judged by the accuracy on the other 20, the mean of the last five evaluations; the test images are not looked at. The
best point of each algorithm is written into the table [compare.settings] of digits.toml.

Run again after an interruption, it continues: the searches are in runs/tune-comparison.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).with_name("digits.toml")
LEARNING_RATES = [0.05, 0.1, 0.2, 0.4]
OWN = {
    "fedavg": {},
    "scaffold": {},
    "feddyn": {"algorithm.mu": [0.01, 0.05, 0.2]},
    "adabest": {"algorithm.beta": [0.6, 0.8, 0.95]},
    "fedadam": {"algorithm.server_lr": [0.01, 0.03, 0.1]},
    "fedgbo": {"algorithm.beta": [0.5, 0.8, 0.95]},
    "fedcm": {"algorithm.alpha": [0.1, 0.3, 0.6]},
    "ghbm": {"algorithm.tau": [2, 5, 10]},
    "fedhbm": {"algorithm.beta": [0.5, 0.8, 1.0]},
}


def best_settings(algorithm: str) -> dict[str, float]:
    space = {"local.lr": LEARNING_RATES, **OWN[algorithm]}
    words = [f"space.{key}={json.dumps(values)}" for key, values in space.items()]
    words += ["sampler=grid", "pruner=none", "seeds=2", "seed=10", "data.validation=20"]
    words += [f"algorithm={algorithm}", f"output=runs/tune-comparison/{algorithm}", "--json"]
    command = [sys.executable, "-m", "driftless", "tune", str(FILE), *words]
    best = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["best"]
    print(f"{algorithm:10} validation accuracy {best['objective']:.4f}  {best['params']}", flush=True)
    return best["params"]


def written(text: str, settings: dict[str, dict[str, float]]) -> str:
    """The file with another table of settings, which is its last."""
    rows = [f"{algorithm} = {{ {inline(found)} }}" for algorithm, found in settings.items()]
    return re.sub(r"(?<=\[compare\.settings\]\n).*", "\n".join([*rows, ""]), text, flags=re.DOTALL)


def inline(settings: dict[str, float]) -> str:
    return ", ".join(f'"{key}" = {value}' for key, value in settings.items())


if __name__ == "__main__":
    chosen = {algorithm: best_settings(algorithm) for algorithm in OWN}
    FILE.write_text(written(FILE.read_text(encoding="utf-8"), chosen), encoding="utf-8")
    print(f"wrote {FILE}")
