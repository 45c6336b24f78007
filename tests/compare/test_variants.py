"""Variants of an algorithm by name: `weak=fedprox,mu=0.01`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compare.test_plan import MINE, error_of, written
from driftless.cli.arguments import split_arguments
from driftless.compare import comparison_of, is_variant, plan
from driftless.compare.variants import folder_names, parse_variant, split_at_commas
from driftless.config.build import simulation_of
from driftless.config.resolution import flat
from driftless.errors import InputError
from runs.runs import small, words

ONE = [*words(), "seeds=1"]
VARIANTS = ["fedavg", "weak=fedprox,mu=0.01", "strong=fedprox,mu=1,lr=0.3"]


def configs(names: list[str], file: Path | None = None, overrides: list[str] = ONE) -> dict[str, Any]:
    """The settings of the first seeds by their folders."""
    found = plan(names, file, overrides).runs
    return {name.removesuffix("/seed-0"): flat(run.config) for name, run in found.items() if name.endswith("/seed-0")}


def test_variants_have_folders_labels_and_settings_of_their_own_in_the_order_of_the_words():
    names, file, overrides = split_arguments(["rounds=60", *VARIANTS, "cohort=5"], is_variant)
    assert (names, file, overrides) == (VARIANTS, None, ["rounds=60", "cohort=5"])
    found = configs(VARIANTS)
    assert {name: (c["algorithm.name"], c["run.label"]) for name, c in found.items()} == {
        "fedavg": ("fedavg", None), "weak": ("fedprox", "weak"), "strong": ("fedprox", "strong"),
    }  # fmt: skip
    assert [(c.get("algorithm.mu"), c["local.lr"]) for c in found.values()] == [(None, 0.1), (0.01, 0.1), (1, 0.3)]


def test_the_settings_of_a_variant_say_where_they_came_from():
    source = plan(VARIANTS, None, ONE).runs["strong/seed-0"].source
    assert (source["algorithm.mu"], source["run.label"]) == ("variant strong", "the comparison")


def test_on_the_command_line_a_variant_wins_over_the_settings_of_all(tmp_path):
    assert configs(["fedavg", "slow=fedavg,lr=0.01"], None, [*ONE, "lr=0.5"])["slow"]["local.lr"] == 0.01
    file = written(tmp_path, '[compare]\nalgorithms = ["fedavg", "slow=fedavg,lr=0.01"]\n')
    assert configs([], file, ONE)["slow"]["local.lr"] == 0.01
    assert configs([], file, [*ONE, "lr=0.5"])["slow"]["local.lr"] == 0.5


def test_a_file_names_variants_by_a_text_or_by_a_table(tmp_path):
    file = written(
        tmp_path,
        """
        [compare]
        algorithms = ["fedavg", "weak=fedprox,mu=0.01", "strong"]
        [compare.settings]
        weak = { lr = 0.2 }
        strong = { algorithm = "fedprox", mu = 1 }
        """,
    )
    found = configs([], file)
    assert [(n, c.get("algorithm.mu"), c["local.lr"]) for n, c in found.items()] == [
        ("fedavg", None, 0.1), ("weak", 0.01, 0.2), ("strong", 1, 0.1),
    ]  # fmt: skip
    assert list(configs(["strong", "weak", "third=fedprox,mu=3"], file)) == ["strong", "weak", "third"]


def test_a_class_of_a_file_has_variants_too(tmp_path):
    (tmp_path / "my.py").write_text(MINE)
    found = configs([f"mine={tmp_path}/my.py:Mine,server_lr=0.5", f"{tmp_path}/my.py:Mine", "my-Mine=fedavg"])
    assert {name: c["run.label"] for name, c in found.items()} == {
        "mine": "mine",
        "my-Mine-2": None,
        "my-Mine": "my-Mine",
    }
    assert found["mine"]["algorithm.server_lr"] == 0.5
    assert found["mine"]["algorithm.name"] == f"{tmp_path}/my.py:Mine"


def test_values_with_commas_stand_in_brackets_or_quotes():
    cohort = "[[0,1],[2,3],[4,5]]"
    found = configs([f"fixed=fedavg,cohort={cohort},rounds=3", 'named=fedavg,partition="iid",lr=0.2'])
    assert (found["fixed"]["run.cohort"], found["fixed"]["run.rounds"]) == ([[0, 1], [2, 3], [4, 5]], 3)
    assert (found["named"]["data.partition"], found["named"]["local.lr"]) == ("iid", 0.2)
    assert split_at_commas("a, [1,{b,c}],'d,e' ,f=\"g,h\"") == ["a", "[1,{b,c}]", "'d,e'", 'f="g,h"']


def test_a_hyper_parameter_of_a_variant_reaches_its_algorithm():
    runs = plan(VARIANTS, None, ONE).runs
    assert simulation_of(runs["strong/seed-0"].config).algorithm.mu == 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("word", "variant"),
    [
        ("weak=fedprox", True), ("weak=fedprox,mu=0.1", True), ("fedprox-0.01=fedprox,mu=0.01", True),
        ("mine=my.py:Mine", True), ("weak=fedprxo,mu=0.1", True), ("fedprox,mu=0.1", True), ("mu=fedprox", True),
        ("algorithm=scaffold", False), ("lr=0.1", False), ("local.lr=fedavg", False), ("output=fedavg", False),
        ("seeds=3", False), ("sweep.data.alpha=[0.1,1]", False), ("roundz=3", False), ("fedavg", False),
        ("output=a,b=c", False), ("compare.seeds=fedavg", False), ("label=fedavg", False),
    ],
)  # fmt: skip
def test_a_word_is_a_variant_when_it_names_an_algorithm_and_sets_no_key(word: str, variant: bool):
    assert is_variant(word) is variant


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["weak=fedprxo,mu=0.1"], "did you mean 'fedprox'?"),
        (["weak=fedprox,mi=0.1"], "did you mean 'mu'?"),
        (["weak=fedprox,mu=0.1,0.2"], "'0.2' in 'weak=fedprox,mu=0.1,0.2' is not of the form KEY=VALUE"),
        (["weak=fedprox,"], "is not of the form KEY=VALUE"),
        (["weak=fedavg,cohort=[[0,1]"], "not closed"),
        (["weak=fedprox,mu=0.1,mu=0.2"], "'algorithm.mu' is given twice"),
        (["weak=fedprox,algorithm=fedavg"], "algorithm=... is for one run"),
        (["weak=fedprox,mu=-1"], "mu"),
        (["mu=fedprox"], "may mean the setting 'mu' or a variant of that name; rename the variant, e.g. fedprox-mu"),
        (["alpha=fedavg"], "may mean the setting 'alpha'"),
        (["scaffold=fedprox"], "'scaffold' is itself an algorithm"),
        (["weak=fedprox", "weak=fedavg"], "named twice"),
        (["weak=fedprox", "Weak=fedavg"], "'Weak' is named twice, also as 'weak'"),
        (["fedprox,mu=0.1"], "'fedprox,mu' cannot name a variant, which is NAME=ALGORITHM"),
        (["../up=fedavg"], "cannot name a variant"),
        (["a b=fedavg"], "cannot name a variant"),
        (["-x=fedavg"], "cannot name a variant"),
        (["=fedavg"], "cannot name a variant"),
        (["comparison.json=fedavg"], "cannot name a variant"),
        (["x" * 61 + "=fedavg"], "at most 60"),
        (["mine=no.py:Mine"], "there is no file 'no.py'"),
    ],
)
def test_a_mistake_in_a_variant_is_found_before_the_first_run_starts(names: list[str], said: str):
    assert said in error_of(names, None, ONE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algorithms = ['fedavg', 'weak']", "unknown algorithm 'weak'"),
        ("algorithms = ['weak=fedprox']\nsettings.weak = { algorithm = 'fedprox' }", "named twice"),
        ("algorithms = ['fedavg']\nsettings.weak = { mu = 1 }", "unknown algorithm 'weak'"),
        ("algorithms = ['weak']\nsettings.weak = { algorithm = 'fedprxo' }", "did you mean 'fedprox'?"),
        ("algorithms = ['fedavg']\nsettings.fedavg = { algorithm = 'scaffold' }", "'fedavg' is itself an algorithm"),
        ("algorithms = ['fedavg']\nsettings.'a/b' = { algorithm = 'scaffold' }", "cannot name a variant"),
        ("algorithms = ['weak']\nsettings.weak = { algorithm = 'fedprox', label = 'x' }", "leave it out"),
    ],
)
def test_a_mistake_in_the_variants_of_a_file_is_found(tmp_path: Path, text: str, said: str):
    assert said in error_of([], written(tmp_path, f"[compare]\n{text}\n"), ONE)


def test_a_label_for_all_is_refused_as_the_names_are_the_labels():
    assert "in a comparison the names are the labels" in error_of(["fedavg"], None, [*ONE, "label=mine"])


def test_configurations_that_are_already_resolved_are_planned_by_name():
    comparison = comparison_of({"fedavg": small(), "slow": small("lr=0.01")}, 2)
    assert [(name, run.config.run.label, run.config.local.lr) for name, run in comparison.runs.items()] == [
        ("fedavg/seed-0", None, 0.1), ("fedavg/seed-1", None, 0.1),
        ("slow/seed-0", "slow", 0.01), ("slow/seed-1", "slow", 0.01),
    ]  # fmt: skip
    with pytest.raises(InputError, match="'my variant' cannot name a variant"):
        comparison_of({"my variant": small()}, 2)
    with pytest.raises(InputError, match="seeds must be a whole number of at least 1"):
        comparison_of({"fedavg": small()}, 0)


def test_folders_differ_though_files_and_names_are_alike():
    names = ["a/my.py:Mine", "b/my.py:Mine", "my-Mine", "my-mine-2"]
    assert len({folder.casefold() for folder in folder_names(names).values()}) == 4
    assert [folder_names(names)[name] for name in names[2:]] == names[2:]


def test_a_variant_is_read_with_spaces_around_its_parts():
    variant = parse_variant("weak = fedprox , mu = 0.1")
    assert (variant.name, variant.algorithm, variant.settings) == ("weak", "fedprox", ("mu = 0.1",))
