"""Sweeps: the comparison for every combination of values of some keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compare.test_plan import error_of, written
from driftless.compare import cell_name, comparison_of, plan, size_text
from driftless.compare.sweep import cell_folders, cells_of
from driftless.errors import InputError
from runs.runs import small, words

SETTINGS = [*(word for word in words("partition=dirichlet") if not word.startswith("cohort=")), "seeds=2"]


def without(*keys: str) -> list[str]:
    return [word for word in words() if word.partition("=")[0] not in keys]


def values_by_folder(comparison: Any, *keys: str) -> dict[str, tuple[Any, ...]]:
    def value(config: Any, key: str) -> Any:
        section, _, name = key.partition(".")
        return getattr(getattr(config, section), name)

    return {name: tuple(value(run.config, key) for key in keys) for name, run in comparison.runs.items()}


def test_the_runs_are_cells_times_algorithms_times_seeds():
    comparison = plan(["fedavg", "ghbm"], None, [*SETTINGS, "sweep.data.alpha=[0.1,1]", "sweep.cohort=[5,10]"])
    assert comparison.sweep == ("data.alpha", "run.cohort")
    assert len(comparison.runs) == 16
    assert size_text(comparison) == "2 algorithms x 4 cells x 2 seeds: 16 runs"
    found = values_by_folder(comparison, "data.alpha", "run.cohort", "algorithm.name", "run.seed")
    assert found == {
        f"alpha={alpha},cohort={cohort}/{name}/seed-{seed}": (alpha, cohort, name, seed)
        for alpha in (0.1, 1) for cohort in (5, 10) for name in ("fedavg", "ghbm") for seed in (0, 1)
    }  # fmt: skip
    assert comparison.runs["alpha=1,cohort=5/ghbm/seed-1"].source["data.alpha"] == "the sweep"


def test_without_a_sweep_the_folders_have_no_cell():
    comparison = plan(["fedavg"], None, [*SETTINGS[:-1], "data.alpha=1", "seeds=1"])
    assert (list(comparison.runs), comparison.sweep) == (["fedavg/seed-0"], ())
    assert size_text(comparison) == "1 algorithm x 1 seed: 1 run"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[compare.sweep]\n'data.alpha' = [0.1, 1]\ncohort = [5]\n", ("data.alpha", "run.cohort")),
        ("[compare.sweep]\ndata.alpha = [0.1, 1]\nlocal.lr = [0.1]\n", ("data.alpha", "local.lr")),
        ("[compare.sweep.data]\nalpha = [0.1, 1]\n", ("data.alpha",)),
        ("[compare.sweep]\nalpha = [0.1, 1]\n", ("data.alpha",)),
    ],
)
def test_a_file_has_the_sweep_as_a_table(tmp_path: Path, text: str, keys: tuple[str, ...]):
    comparison = plan(["fedavg"], written(tmp_path, text), SETTINGS)
    assert comparison.sweep == keys
    assert len(comparison.runs) == 4


def test_names_need_no_quotes_and_none_is_a_value():
    given = [*without("model", "batch_size"), "seeds=1", "sweep.model=[logistic,mlp]", "sweep.batch_size=[none, 10]"]
    found = values_by_folder(plan(["fedavg"], None, given), "model.name", "local.batch_size")
    assert found == {
        f"model={model},batch_size={size}/fedavg/seed-0": (model, None if size == "none" else size)
        for model in ("logistic", "mlp") for size in ("none", 10)
    }  # fmt: skip


def test_a_swept_partition_brings_its_own_options():
    given = [*without("data.partition"), "seeds=1", "sweep.data.partition=[iid,dirichlet]"]
    assert "fedavg with partition=dirichlet: " in error_of(["fedavg"], None, given)
    given = [*words("partition=dirichlet", "data.alpha=1"), "seeds=1", "sweep.data.sizes=[balanced,lognormal]"]
    found = values_by_folder(plan(["fedavg"], None, given), "data.sizes")
    assert found == {f"sizes={kind}/fedavg/seed-0": (kind,) for kind in ("balanced", "lognormal")}


def test_a_swept_hyper_parameter_is_one_of_all_that_are_compared():
    assert len(plan(["fedprox"], None, [*words(), "seeds=1", "sweep.mu=[0.1,1]"]).runs) == 2
    message = error_of(["fedprox", "fedavg"], None, [*words(), "sweep.mu=[0.1,1]"])
    assert message.startswith("the sweep does not fit fedavg: unknown key 'mu'")


def test_a_short_key_that_means_different_settings_is_refused():
    given = [*SETTINGS, "sweep.alpha=[0.1,1]"]
    assert "could be data.alpha or algorithm.alpha" in error_of(["fedavg", "fedcm"], None, given)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["sweep.lr=0.1"], "sweep.local.lr must be a list of values such as [0.1, 1], got 0.1"),
        (["sweep.lr=[]"], "must be a list of values"),
        (["sweep.model=[mlp,,cnn]"], "must be a list of values"),
        (["sweep.lr=[0.1,0.2,0.1]"], "sweep.local.lr holds 0.1 twice"),
        (["sweep.lr=[1,1.0]"], "holds 1.0 twice"),
        (["sweep.lrr=[1]"], "did you mean 'lr'?"),
        (["sweep.local.lrr=[1]"], "did you mean 'lr'?"),
        (["sweep=3"], "compare.sweep"),
        (["sweep.lr=[0.1]", "sweep.local.lr=[0.2]"], "'local.lr' is given twice"),
        (["sweep.lr=[0.1,0.2]", "lr=0.3"], "'local.lr' is swept, and also given for fedavg (command line)"),
        (["sweep.seed=[0,1]"], "sweep.run.seed cannot be swept: seeds=N"),
        (["sweep.data.seed=[0,1]"], "cannot be swept: seeds=N"),
        (["sweep.algorithm=[fedavg,ghbm]"], "cannot be swept: name the algorithms"),
        (["sweep.output=[a,b]"], "cannot be swept: it changes no result"),
        (["sweep.label=[a,b]"], "cannot be swept"),
        (["sweep.workers=[1,2]"], "cannot be swept: it changes no result"),
        (["sweep.lr=[0.1,-1]"], "fedavg with lr=-1: local.lr"),
        (["sweep.cohort=[5,500]"], "fedavg with cohort=500: "),
        (["sweep.model=[mlp,mpl]"], "fedavg with model=mpl: "),
        (["sweep.epochs=[1,many]"], "fedavg with epochs=many: local.epochs must be a whole number"),
        (["sweep.lr=[0.1", "seeds=1"], "must be a list of values"),
    ],
)
def test_a_mistake_is_found_before_the_first_run_and_says_in_which_cell(overrides: list[str], said: str):
    assert said in error_of(["fedavg"], None, [*without("cohort", "epochs", "model"), *overrides])


def test_a_key_of_a_variant_cannot_be_swept_too(tmp_path):
    message = error_of(["fedavg", "slow=fedavg,lr=0.01"], None, [*words(), "sweep.lr=[0.1,0.2]"])
    assert "'local.lr' is swept, and also given for slow (variant slow)" in message
    file = written(tmp_path, "[local]\nlr = 0.3\n")
    assert f"also given for fedavg ({file})" in error_of(["fedavg"], file, [*words(), "sweep.lr=[0.1,0.2]"])
    assert "also given for fedsgd (algorithm fedsgd)" in error_of(["fedsgd"], None, ["sweep.steps=[1,2]"])


def test_more_runs_than_a_comparison_may_have_are_refused_at_once():
    values = ",".join(f"0.{n:05d}" for n in range(1, 1002))
    message = error_of(["fedavg"], None, [*words(), "seeds=100", f"sweep.lr=[{values}]"])
    assert message == (
        "1 algorithm x 1,001 cells x 100 seeds are 100,100 runs; a comparison may have 100,000. "
        "Give fewer seeds or values of the sweep."
    )


def test_a_sweep_of_configurations_that_are_already_resolved_replaces_their_values():
    configurations = {"fedavg": small("lr=0.3"), "weak": small("algorithm=fedprox", "mu=0.01")}
    comparison = comparison_of(configurations, 1, {"lr": (0.1, 0.2), "run.cohort": [2]}, target=0.8)
    assert values_by_folder(comparison, "local.lr", "run.cohort", "run.label") == {
        f"lr={lr},cohort=2/{name}/seed-0": (lr, 2, label)
        for lr in (0.1, 0.2) for name, label in (("fedavg", None), ("weak", "weak"))
    }  # fmt: skip
    assert comparison.runs["lr=0.2,cohort=2/weak/seed-0"].config.algorithm.model_extra == {
        "mu": 0.01,
        "server_lr": 1.0,
    }
    assert comparison.target == 0.8
    with pytest.raises(InputError, match="weak with lr=-1: "):
        comparison_of(dict(reversed(configurations.items())), 1, {"local.lr": [-1]})


def test_names_of_cells_are_as_short_as_they_can_be_told_apart():
    assert cell_name({}) == ""
    assert cell_name({"data.alpha": 0.1, "run.cohort": 5}) == "alpha=0.1,cohort=5"
    assert cell_name({"data.alpha": 0.1, "algorithm.alpha": 1.0}) == "data.alpha=0.1,algorithm.alpha=1.0"
    assert cell_name({"model.name": "mlp", "local.batch_size": None}) == "model=mlp,batch_size=none"
    assert cell_name({"run.stop_at_target": True, "run.cohort": [[0, 1]]}) == "stop_at_target=true,cohort=[[0,1]]"


def test_folders_of_cells_are_file_names_that_differ():
    cells = cells_of({"run.cohort": ["a/b", "a b", "A/B", "x" * 200, "x" * 201]})
    long = "cohort=" + "x" * 93
    assert cell_folders(cells) == ["cohort=a-b", "cohort=a-b-2", "cohort=A-B-3", long, f"{long}-2"]
    assert cell_folders(cells_of({})) == [""]
