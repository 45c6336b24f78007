from __future__ import annotations

from pathlib import Path

import pytest

from driftless.errors import InputError
from driftless.report.commands import commands
from driftless.report.curves import group
from driftless.report.settings import read_settings, settings_tables
from driftless.runs.directory import StoredRun
from report.runs import Folder

OWN = """
from dataclasses import dataclass

from driftless.algorithms import FedAvg


@dataclass(frozen=True)
class Mine(FedAvg):
    mu: float = 0.5
"""


def test_settings_are_parted_into_those_that_differ_and_those_in_common(folder: Folder):
    runs = [folder("fedavg", 0, [0.1]), folder("ghbm", 0, [0.1], "algorithm.tau=5", "local.lr=0.3")]
    differing, common = settings_tables([read_settings(run.path) for run in runs])
    assert {s.key: s.values for s in differing} == {
        "algorithm options": ["default", "tau = 5"],
        "local.lr": ["0.1", "0.3"],
    }
    keys = {setting.key for setting in common}
    assert "run.rounds" in keys
    assert not keys & {"run.output", "engine.kind", "algorithm.name", "local.lr"}


def test_hyper_parameters_and_options_at_their_defaults_are_left_out(folder: Folder):
    given = ("algorithm.tau=7", "data.partition=dirichlet", "data.alpha=1.0")
    settings = read_settings(folder("ghbm", 0, [0.1], *given).path)
    assert settings["data.alpha"] == 1.0
    assert [key for key in settings if key.startswith("algorithm.")] == ["algorithm.name", "algorithm.tau"]
    assert read_settings(folder("ghbm", 0, [0.1], *given, "data.sizes=balanced").path) == settings


def test_the_file_of_a_users_algorithm_is_not_needed(folder: Folder, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(OWN, encoding="utf-8")
    runs = [folder("fedavg", 0, [0.1]), folder(f"{file}:Mine", 0, [0.2]), folder(f"{file}:Mine", 1, [0.2])]
    file.write_text("raise RuntimeError('a report does not import the code of its runs')", encoding="utf-8")
    curves = group([StoredRun(run.path) for run in runs])
    assert [(curve.label, curve.seeds) for curve in curves] == [("fedavg", [0]), ("mine.py:Mine", [0, 1])]
    assert curves[1].settings["algorithm.mu"] == 0.5
    assert commands(curves)[1].startswith(f"driftless compare {file}:Mine algorithm.mu=0.5 ")


def test_settings_that_this_version_does_not_have_are_read(folder: Folder):
    run = folder("fedavg", 0, [0.1])
    with (run.path / "config.toml").open("a", encoding="utf-8") as file:
        file.write("[former]\nkey = 1\n")
    (curve,) = group([run])
    assert curve.settings["former.key"] == 1


def test_the_label_of_a_run_names_its_curve_and_is_no_setting_that_differs(folder: Folder):
    runs = [folder("fedprox", 0, [0.1], f"run.label={label}", f"algorithm.mu={mu}")
            for label, mu in (("weak", 0.02), ("strong", 1.0))]  # fmt: skip
    runs += [folder("fedprox", 0, [0.1]), folder("fedprox", 1, [0.1], "run.label=weak", "algorithm.mu=0.02")]
    curves = group(runs)
    assert [(curve.label, curve.seeds) for curve in curves] == [("weak", [0, 1]), ("strong", [0]), ("fedprox", [0])]
    differing, common = settings_tables([curve.settings for curve in curves])
    assert [setting.key for setting in differing] == ["algorithm options"]
    assert "run.label" not in [setting.key for setting in common]
    other = folder("fedprox", 0, [0.1], "run.label=weak", "algorithm.mu=0.5")
    assert [c.label for c in group([*runs, other])] == [
        "weak algorithm.mu=0.02", "strong", "fedprox", "weak algorithm.mu=0.5",
    ]  # fmt: skip
    assert len(group([folder("fedavg", 0, [0.1], f"run.label={label}") for label in "ab"])) == 2


def test_a_damaged_label_is_refused(folder: Folder):
    run = folder("fedavg", 0, [0.1], "run.label=mine")
    file = run.path / "config.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('label = "mine"', "label = 3"), encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.label of .* cannot be 3"):
        read_settings(run.path)
