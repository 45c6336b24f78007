"""Algorithms times seeds: resolved and checked as a whole before the first run starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftless.compare import plan
from driftless.config.build import simulation_of
from driftless.errors import InputError
from runs.runs import words

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.toml"
NAMES = ["fedavg", "scaffold"]


def written(folder: Path, text: str) -> Path:
    file = folder / "compared.toml"
    file.write_text(text, encoding="utf-8")
    return file


def error_of(*arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        plan(*arguments)
    return str(caught.value)


def test_the_runs_are_algorithms_times_seeds_from_the_first_seed():
    comparison = plan(["fedavg", "adabest"], None, [*words("seed=5"), "seeds=2"])
    expected = {"fedavg/seed-5": 5, "fedavg/seed-6": 6, "adabest/seed-5": 5, "adabest/seed-6": 6}
    assert {name: run.config.run.seed for name, run in comparison.runs.items()} == expected
    assert all(run.config.algorithm.name == name.split("/")[0] for name, run in comparison.runs.items())
    assert comparison.rounds == 4 * 8
    assert len(plan(["fedavg"], None, words()).runs) == 3


def test_every_run_has_one_process_unless_the_user_wants_more():
    assert all(run.config.engine.workers == 1 for run in plan(NAMES, None, words()).runs.values())
    assert plan(NAMES, None, words()).runs["fedavg/seed-0"].source["engine.workers"] == "the comparison"
    assert plan(["fedavg"], None, words("workers=2")).runs["fedavg/seed-0"].config.engine.workers == 2


TABLE = """
[local]
lr = 0.3
[compare]
algorithms = ["fedavg", "scaffold", "fedadam", "fedcm"]
seeds = 2
target = 0.8
[compare.settings]
fedavg = { lr = 0.5, "run.rounds" = 7 }
fedadam = { server_lr = 0.02, local = { lr = 0.6 } }
fedcm = { "algorithm.alpha" = 0.4 }
"""


def test_the_settings_of_one_algorithm_are_its_own(tmp_path):
    comparison = plan([], written(tmp_path, TABLE), [])
    assert comparison.target == 0.8
    assert len(comparison.runs) == 8
    found = {name: run.config for name, run in comparison.runs.items() if name.endswith("seed-0")}
    assert {name.split("/")[0]: c.local.lr for name, c in found.items()} == {
        "fedavg": 0.5, "scaffold": 0.3, "fedadam": 0.6, "fedcm": 0.3,
    }  # fmt: skip
    assert [c.run.rounds for c in found.values()] == [7, 100, 100, 100]
    assert simulation_of(found["fedadam/seed-0"]).algorithm.server_lr == 0.02
    assert simulation_of(found["fedcm/seed-0"]).algorithm.alpha == 0.4
    source = comparison.runs["fedavg/seed-0"].source
    assert source["local.lr"] == f"compare.settings.fedavg of {tmp_path / 'compared.toml'}"


def test_the_command_line_wins_over_the_settings_and_the_names_of_the_file(tmp_path):
    comparison = plan(["fedavg", "adabest"], written(tmp_path, TABLE), ["lr=0.9", "seeds=1", "target=0.5"])
    assert list(comparison.runs) == ["fedavg/seed-0", "adabest/seed-0"]
    assert {run.config.local.lr for run in comparison.runs.values()} == {0.9}
    assert comparison.runs["fedavg/seed-0"].config.run.rounds == 7
    assert comparison.target == 0.5


def test_hyper_parameters_in_the_file_belong_to_its_algorithm_and_not_to_the_others(tmp_path):
    comparison = plan(NAMES, written(tmp_path, '[algorithm]\nname = "fedavg"\nserver_lr = 0.5\n'), words())
    found = {name: simulation_of(run.config).algorithm.server_lr for name, run in comparison.runs.items()}
    assert (found["fedavg/seed-0"], found["scaffold/seed-0"]) == (0.5, 1.0)


def test_the_example_of_the_documentation_is_a_valid_comparison():
    comparison = plan([], EXAMPLE, [])
    assert len(comparison.runs) == 27
    for name, run in comparison.runs.items():
        if name.endswith("seed-0"):
            simulation_of(run.config)


@pytest.mark.parametrize(
    ("names", "overrides", "said"),
    [
        ([], [], "no algorithm to compare"),
        (["fedavg", "scafold"], [], "did you mean 'scaffold'?"),
        (["fedavg", "fedavg"], [], "named twice"),
        (["fedavg"], ["algorithm=scaffold"], "algorithm=... is for one run"),
        (["fedavg"], ["seeds=0"], "compare.seeds is 0"),
        (["fedavg"], ["seeds=-2"], "compare.seeds is -2"),
        (["fedavg"], ["seeds=many"], "compare.seeds is 'many'"),
        (["fedavg"], ["seeds=1.5"], "compare.seeds is 1.5"),
        (["fedavg"], ["seeds=true"], "compare.seeds is True"),
        (["fedavg"], ["seeds=1", "seeds=2"], "given twice"),
        (["fedavg"], ["target=high"], "compare.target is 'high'"),
        (["fedavg"], ["roundz=3"], "did you mean 'rounds'?"),
        (["fedavg"], ["lr=-1"], "local.lr"),
        (["fedavg", "fedsgd"], ["epochs=3"], "FedSGD"),
        (["no.py:Mine"], [], "no.py'; algorithm=FILE.py:CLASS needs the path of a Python file"),
    ],
)
def test_a_mistake_is_found_before_the_first_run_starts(names: list[str], overrides: list[str], said: str):
    assert said in error_of(names, None, overrides)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[compare]\nalgoritms = ['fedavg']\n", "did you mean 'algorithms'?"),
        ("compare = 3\n", "must be a table"),
        ("[compare]\nalgorithms = 'fedavg'\n", "compare.algorithms"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavgg = { lr = 1 }\n", "did you mean 'fedavg'?"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = { lrr = 1 }\n", "did you mean 'lr'?"),
        (
            "[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = { lr = 'x' }\n",
            "local.lr is 'x'; give a number",
        ),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings]\nfedavg = 3\n", "compare.settings.fedavg"),
        ("[compare]\nalgorithms = ['fedavg']\n[compare.settings.fedavg]\nalgorithm = 'scaffold'\n", "algorithm"),
        ("[local]\nlrr = 2\n[compare]\nalgorithms = ['fedavg']\n", "did you mean 'lr'?"),
    ],
)
def test_a_mistake_in_the_file_is_found_before_the_first_run_starts(tmp_path: Path, text: str, said: str):
    assert said in error_of([], written(tmp_path, text), [])


MINE = """
from dataclasses import dataclass
from driftless.algorithms import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    pass
"""


def test_classes_of_the_same_name_in_files_of_the_same_name_are_all_compared(tmp_path):
    names = [f"{tmp_path / folder / 'my.py'}:Mine" for folder in ("a", "b", "c")]
    for name in names:
        file = Path(name.rpartition(":")[0])
        file.parent.mkdir()
        file.write_text(MINE)
    comparison = plan(names, None, [*words(), "seeds=1"])
    assert [run.config.algorithm.name for run in comparison.runs.values()] == names
    assert list(comparison.runs) == ["my-Mine/seed-0", "my-Mine-2/seed-0", "my-Mine-3/seed-0"]


def test_one_class_by_two_spellings_of_its_file_is_named_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(MINE)
    assert "named twice" in error_of(["my.py:Mine", f"{tmp_path}/my.py:Mine"], None, [])
