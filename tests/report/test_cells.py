"""The cells of a sweep, found in the settings of runs."""

from __future__ import annotations

import json
from pathlib import Path

from driftless.report.cells import cells_of, matrix, swept_keys
from driftless.report.curves import group
from driftless.report.summary import summarise
from driftless.runs.directory import StoredRun
from report.runs import Folder, accuracies, write_run


def swept(home: Path, key: str, values: list[object], names: list[str], sweep: list[str]) -> list[StoredRun]:
    """Runs of a comparison as compare writes them; the accuracy says which run it is."""
    runs: list[StoredRun] = []
    for column, value in enumerate(values):
        for line, word in enumerate(names):
            label, _, algorithm = word.rpartition("=")
            settings = [f"algorithm={algorithm}", f"{key}={value}", *([f"run.label={label}"] if label else [])]
            for seed in (0, 1):
                place = home / f"cell-{column}" / (label or algorithm) / f"seed-{seed}"
                rows = accuracies([0.1, 0.1 + column / 10 + line / 100 + seed / 1000 * (line + 1)])
                runs.append(write_run(place, [*settings, f"run.seed={seed}"], rows))
    (home / "comparison.json").write_text(json.dumps({"runs": [], "target": None, "sweep": sweep}), encoding="utf-8")
    return runs


def test_a_key_that_the_comparison_swept_makes_cells_with_short_labels_in_the_order_of_the_values(tmp_path: Path):
    runs = swept(tmp_path, "run.cohort", [50, 5], ["fedavg", "weak=fedprox"], ["run.cohort"])
    curves = group(runs)
    assert [curve.label for curve in curves][:2] == ["fedavg run.cohort=50", "weak run.cohort=50"]
    assert swept_keys(curves) == ["run.cohort"]
    cells = cells_of(curves)
    assert [(cell.name, cell.values) for cell in cells] == [
        ("cohort=5", {"run.cohort": 5}),
        ("cohort=50", {"run.cohort": 50}),
    ]
    assert [[curve.label for curve in cell.curves] for cell in cells] == [["fedavg", "weak"]] * 2
    assert cells[0].full_labels == ("fedavg run.cohort=5", "weak run.cohort=5")


def test_each_cell_has_a_target_rows_and_differences_of_its_own(tmp_path: Path):
    summary = summarise(swept(tmp_path, "local.lr", [0.1, 0.2], ["fedavg", "weak=fedprox"], ["local.lr"]))
    assert [(cell.name, [row.label for row in part.rows]) for cell, part in summary.parts] == [
        ("lr=0.1", ["weak", "fedavg"]),
        ("lr=0.2", ["weak", "fedavg"]),
    ]
    assert [round(target.value, 4) for target in summary.targets] == [0.1005, 0.2005]
    assert {row.label: row.cell for row in summary.rows} == {
        f"{name} local.lr={lr}": f"lr={lr}" for name in ("fedavg", "weak") for lr in (0.1, 0.2)
    }
    for row in summary.rows:
        assert [each.reference for each in row.differences] == (["fedavg"] if row.algorithm == "fedprox" else ["weak"])
        assert abs(row.differences[0].mean) < 0.02


def test_the_matrix_has_a_line_for_each_name_and_a_column_for_each_cell(tmp_path: Path):
    runs = swept(tmp_path, "run.cohort", [5, 50], ["fedavg", "weak=fedprox"], ["run.cohort"])
    found = matrix(summarise(runs), lambda row: row.last and round(row.last.mean, 4))
    assert found == {
        "fedavg": {"cohort=5": 0.1005, "cohort=50": 0.2005},
        "weak": {"cohort=5": 0.111, "cohort=50": 0.211},
    }
    some = [run for run in runs if "cell-1/weak" not in str(run.path)]
    assert matrix(summarise(some), lambda row: row.label) == {
        "fedavg": {"cohort=5": "fedavg", "cohort=50": "fedavg"},
        "weak": {"cohort=5": "weak", "cohort=50": None},
    }


def test_of_a_sweep_one_cell_alone_is_no_sweep(tmp_path: Path):
    runs = swept(tmp_path, "run.cohort", [5, 50], ["fedavg", "weak=fedprox"], ["run.cohort"])
    curves = group(runs[:4])
    assert [curve.label for curve in curves] == ["fedavg", "weak"]
    assert swept_keys(curves) == []
    ((cell, part),) = summarise(runs[:4]).parts
    assert (cell.name, cell.values, [row.cell for row in part.rows]) == ("", {}, ["", ""])


def test_values_that_are_not_numbers_and_options_at_their_defaults_are_in_the_given_order(tmp_path: Path):
    home = tmp_path / "a"
    runs = swept(home, "model.name", ["mlp", "logistic"], ["fedavg", "ghbm"], ["model.name"])
    assert [cell.name for cell in cells_of(group(runs))] == ["model=mlp", "model=logistic"]
    given = ["data.partition=dirichlet", "data.alpha=1.0"]
    sizes = [
        write_run(tmp_path / kind / name, [*given, f"data.sizes={kind}", f"algorithm={name}"], accuracies([0.1]))
        for kind in ("lognormal", "balanced") for name in ("fedavg", "ghbm")
    ]  # fmt: skip
    assert [cell.name for cell in cells_of(group(sizes))] == ["sizes=lognormal", "sizes=balanced"]


def test_data_and_models_of_separate_runs_make_cells_without_a_comparison(folder: Folder):
    runs = [folder(name, 0, [0.1], f"data.clients={n}") for n in (20, 10) for name in ("fedavg", "ghbm")]
    assert [cell.name for cell in cells_of(group(runs))] == ["clients=10", "clients=20"]


def test_settings_of_an_algorithm_s_own_make_no_cells(folder: Folder):
    tuned = [folder("fedavg", 0, [0.1], "local.lr=0.2"), folder("fedavg", 0, [0.1]), folder("ghbm", 0, [0.1])]
    assert swept_keys(group(tuned)) == []
    variants = [folder("fedavg", 0, [0.1], f"run.label={m}", f"model={m}") for m in ("mlp", "logistic")]
    (cell,) = cells_of(group(variants))
    assert [curve.label for curve in cell.curves] == ["mlp", "logistic"]
    assert len(summarise(variants, 0.05).targets) == 2  # costs on different models are not compared
