"""examples/defences.py: the runs and the table, on a few rounds without attackers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import driftless

FILE = Path(__file__).parents[2] / "examples" / "defences.py"


@pytest.fixture(scope="module")
def defences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("defences", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_the_accuracies_of_all_runs_and_continues(
    defences: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert {aggregation.rule for aggregation in defences.RULES.values()} == {"mean", "median", "krum", "norm-bound"}
    monkeypatch.setattr(defences, "ALGORITHMS", ["fedavg", "scaffold"])
    monkeypatch.setattr(defences, "RULES", {name: defences.RULES[name] for name in ("mean", "norm bound")})
    found = defences.accuracies("digits", tmp_path, rounds=2, attackers=[0.0], seeds=2)
    assert set(found) == {
        ("digits", 0.0, algorithm, rule) for algorithm in defences.ALGORITHMS for rule in defences.RULES
    }
    assert all(len(values) == 2 for values in found.values())
    stored = driftless.load_run(tmp_path / "digits" / "norm-bound-0" / "scaffold" / "seed-1")
    assert stored.config.server.aggregation == "norm-bound"
    assert found["digits", 0.0, "scaffold", "norm bound"][1] == sum(stored.history["test_accuracy"]) / 2
    assert defences.accuracies("digits", tmp_path, rounds=2, attackers=[0.0], seeds=2) == found
    head, _, *lines = defences.table(found).splitlines()
    assert head == "| | | digits, 0% |"
    assert lines[3] == f"| scaffold | norm bound | {defences.cell(found['digits', 0.0, 'scaffold', 'norm bound'])} |"
    assert (len(lines), defences.cell([0.5, 0.7])) == (4, "60.0 ± 14.1")
