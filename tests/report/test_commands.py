from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from driftless.compare import plan
from driftless.config.resolution import flat, resolve
from driftless.config.sections import Config
from driftless.report.commands import commands
from driftless.report.curves import group
from driftless.report.settings import Settings, identity, key_of
from report.runs import Folder, write_run


def experiment(config: Config) -> Settings:
    return identity(flat(config))


def test_the_command_of_a_comparison_plans_the_same_runs(folder: Folder):
    settings = ("data.partition=dirichlet", "data.alpha=0.3", "local.epochs=2", "run.rounds=7", "run.cohort=0.2")
    settings = (*settings, "run.evaluate_every=1")
    runs = [folder(name, s, [0.1], *settings) for name in ("fedavg", "ghbm") for s in (2, 3)]
    (command,) = commands(group(runs))
    program, verb, first, second, *overrides = shlex.split(command)
    assert (program, verb, first, second) == ("driftless", "compare", "fedavg", "ghbm")
    planned = plan([first, second], None, overrides).runs.values()
    seeds = [(config.algorithm.name, config.run.seed) for resolved in planned for config in [resolved.config]]
    assert seeds == [("fedavg", 2), ("fedavg", 3), ("ghbm", 2), ("ghbm", 3)]
    ours = {key_of(experiment(run.config)) for run in runs}
    assert {key_of(experiment(resolved.config)) for resolved in planned} == ours


def test_curves_with_settings_of_their_own_have_a_command_each_that_plans_the_same_runs(folder: Folder):
    own = {"fedavg": ["local.lr=0.2"], "ghbm": ["algorithm.tau=5", "data.seed=3"]}
    runs = [folder(n, s, [0.1], *each, "run.evaluate_every=1") for n, each in own.items() for s in (0, 1)]
    found = commands(group(runs))
    assert len(found) == 2
    for command, name, stored in zip(found, own, (runs[:2], runs[2:]), strict=True):
        program, verb, algorithm, *overrides = shlex.split(command)
        assert (program, verb, algorithm) == ("driftless", "compare", name)
        planned = [resolved.config for resolved in plan([name], None, overrides).runs.values()]
        for again, run in zip(planned, stored, strict=True):
            assert experiment(again) == experiment(run.config)
            assert (again.run.seed, again.data.seed) == (run.config.run.seed, run.config.data.seed)


def test_seeds_that_do_not_follow_one_another_are_runs(folder: Folder):
    found = commands(group([folder("fedavg", s, [0.1]) for s in (1, 4)]))
    assert found == ["driftless run run.rounds=1 run.seed=1", "driftless run run.rounds=1 run.seed=4"]


@pytest.mark.parametrize(
    "settings",
    [
        ("algorithm=ghbm", "local.lr=0.3", "algorithm.tau=5", "run.seed=4"),
        ("run.cohort=[[0, 1]]", "data.seed=3", "server.warmup_rounds=2"),
        ("local.batch_size=none", "local.steps=3", "data.partition=iid", "local.lr=[0.1,0.05]", "local.momentum=0.9"),
        ("data.partition=prior-dirichlet", "data.alpha=0.1"),
        ("data.alpha=0.5", "data.sizes=lognormal"),
        ("algorithm=fedadam", "algorithm.server_lr=1.0"),  # the default of another algorithm
    ],
)
def test_the_command_of_a_run_gives_its_configuration_back(tmp_path: Path, settings: tuple[str, ...]):
    run = write_run(tmp_path / "a", ["run.rounds=1", *settings], [{"round": 1}])
    (command,) = commands(group([run]))
    program, verb, *overrides = shlex.split(command)
    assert (program, verb) == ("driftless", "run")
    again, ours = flat(resolve(None, overrides).config), flat(run.config)
    assert identity(again) == identity(ours)
    assert [again[key] for key in ("run.seed", "data.seed")] == [ours[key] for key in ("run.seed", "data.seed")]


def test_a_command_that_nobody_would_read_names_the_stored_configuration(tmp_path: Path):
    cohort = ", ".join("[0, 1, 2, 3]" for _ in range(200))
    run = write_run(tmp_path / "a b", [f"run.cohort=[{cohort}]"], [{"round": 1}])
    (command,) = commands(group([run]))
    assert shlex.split(command) == ["driftless", "run", str(tmp_path / "a b" / "config.toml")]


def test_variants_have_a_command_each_that_plans_the_same_runs_with_the_same_labels(folder: Folder):
    runs = [folder("fedprox", s, [0.1], f"run.label={label}", f"algorithm.mu={mu}", "run.evaluate_every=1")
            for label, mu in (("weak", 0.01), ("strong", 1.0)) for s in (0, 1)]  # fmt: skip
    for command, stored in zip(commands(group(runs)), (runs[:2], runs[2:]), strict=True):
        _, _, word, *overrides = shlex.split(command)
        planned = [resolved.config for resolved in plan([word], None, overrides).runs.values()]
        assert [experiment(config) for config in planned] == [experiment(run.config) for run in stored]
        assert {config.run.label for config in planned} == {stored[0].config.run.label}


def test_a_label_that_no_variant_can_have_is_given_to_runs(folder: Folder):
    runs = [folder("fedavg", s, [0.1], "run.label=my own") for s in (0, 1)]
    found = [shlex.split(command) for command in commands(group(runs))]
    assert [words[:2] for words in found] == [["driftless", "run"]] * 2
    assert all("run.label=my own" in words for words in found)
