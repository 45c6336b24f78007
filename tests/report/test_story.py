from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from driftless import compare as comparing
from driftless.config.resolution import resolve
from driftless.report.curves import group, identity, settings_of
from driftless.report.story import (
    commands,
    facts,
    fewer_seeds,
    findings,
    happenings,
    machines,
    settings_tables,
    title_of,
)
from driftless.report.summary import summarise
from driftless.runs.directory import StoredRun
from report.runs import Folder, write_run


def texts(runs: list[StoredRun]) -> str:
    return "\n".join(f"{note.text} {note.command}" for note in happenings(group(runs)))


def test_the_title_names_up_to_three_algorithms(folder: Folder):
    names = ("fedavg", "scaffold", "ghbm", "adabest")
    runs = [folder(name, 0, [0.1]) for name in names]
    assert title_of(group(runs[:1])) == "fedavg on digits"
    assert title_of(group(runs[:3])) == "fedavg, scaffold and ghbm on digits"
    assert title_of(group(runs)) == "4 algorithms on digits"


def test_the_facts_say_what_was_run_and_what_differs(folder: Folder):
    common = ("data.partition=dirichlet", "data.alpha=0.3", "run.cohort=0.1", "local.epochs=5", "local.batch_size=10")
    runs = [folder("fedavg", s, [0.1], *common) for s in (0, 1, 2)] + [
        folder("ghbm", 0, [0.1], *common, "local.lr=0.3")
    ]
    found = dict(facts(group(runs), clients=100))
    assert found["Data"] == "digits, 100 clients"
    assert found["Partition"] == "dirichlet, alpha = 0.3"
    assert found["Cohort"] == "0.1 of the clients a round"
    assert found["Local training"] == "lr differs, 5 epochs, batches of 10"
    assert found["Seeds"] == "differs"
    assert found["Runs"] == "4"
    assert dict(facts(group(runs[:3])))["Local training"] == "lr 0.1, 5 epochs, batches of 10"
    assert dict(facts(group(runs[:3])))["Seeds"] == "0 to 2"


def test_settings_are_parted_into_those_that_differ_and_those_in_common(folder: Folder):
    runs = [folder("fedavg", 0, [0.1]), folder("ghbm", 0, [0.1], "algorithm.tau=5", "local.lr=0.3")]
    differing, common = settings_tables(group(runs))
    assert {s.key: s.values for s in differing} == {
        "algorithm options": ["default", "tau = 5"],
        "local.lr": ["0.1", "0.3"],
    }
    keys = {setting.key for setting in common}
    assert "run.rounds" in keys
    assert not keys & {"run.seed", "data.seed", "run.output", "engine.kind", "algorithm.name", "local.lr"}


def test_a_lead_that_is_larger_than_the_spread_is_called_one(folder: Folder):
    runs = [folder("fedavg", s, [0.5, 0.5 + s / 100]) for s in (0, 1)]
    runs += [folder("ghbm", s, [0.8, 0.8 + s / 100]) for s in (0, 1)]
    first, second = findings(summarise(runs))
    assert first == "ghbm ends with the highest test accuracy, 0.8050 ± 0.0071, before fedavg with 0.5050 ± 0.0071."
    assert second == "ghbm reaches 0.505 first, after 1.0 rounds: 0.50x the rounds and 0.50x the traffic of fedavg."


def test_a_lead_within_the_spread_is_not_called_one(folder: Folder):
    runs = [
        folder(name, s, [0.5, 0.5 + s / 10 + more]) for s in (0, 1) for name, more in (("fedavg", 0), ("ghbm", 0.01))
    ]
    assert "fedavg (0.5500 ± 0.0707) is no further away than the seeds spread" in findings(summarise(runs))[0]


def test_a_comparison_with_a_fedavg_that_misses_the_target_is_called_a_bound(folder: Folder):
    runs = [folder("fedavg", 0, [0.1] * 4), folder("ghbm", 0, [0.1, 0.8, 0.8, 0.8])]
    assert "after 2.0 rounds: at most 0.50x the rounds and 0.50x" in findings(summarise(runs, target=0.5))[1]


def test_a_lead_of_single_seeds_says_that_it_shows_little(folder: Folder):
    runs = [folder("fedavg", 0, [0.5, 0.6]), folder("ghbm", 0, [0.4, 0.5])]
    first, second = findings(summarise(runs))
    assert first.endswith("one seed each does not show how sure that is.")
    assert second == "Nothing reaches 0.6 sooner than fedavg."


def test_one_curve_alone_has_no_findings(folder: Folder):
    assert findings(summarise([folder("fedavg", 0, [0.5])])) == []


def test_runs_in_which_nothing_happened_have_no_notes(comparison: list[StoredRun]):
    assert happenings(group(comparison)) == []
    assert fewer_seeds(group(comparison)) == []


def test_a_divergence_is_told_with_its_likely_cause(folder: Folder):
    reason = "diverged at round 2: rounds 2 to 4 gave no finite update. Likely cause: local steps with lr=9 blow up."
    run = folder("ghbm", 3, [0.1] * 4, "run.rounds=9", status="diverged", reason=reason)
    assert texts([run]).strip() == f"ghbm, seed 3: {reason}"


def test_stopped_and_unfinished_runs_are_told_with_what_to_do(folder: Folder):
    stopped = folder("fedavg", 0, [0.1] * 2, "run.rounds=9", status="stopped", reason="reached the target 0.1")
    unfinished = folder("fedavg", 1, [0.1] * 3, "run.rounds=9", status=None)
    text = texts([stopped, unfinished])
    assert "fedavg, seed 0: stopped after round 2 of 9: reached the target 0.1." in text
    assert f"not finished, 3 of 9 rounds so far. driftless resume {shlex.quote(str(unfinished.path))}" in text
    assert fewer_seeds(group([stopped, unfinished])) == ["fedavg"]


def test_failures_and_events_are_told_with_their_rounds_and_clients(tmp_path: Path):
    rows = [{"round": t, "failure": int(t in (2, 5))} for t in range(1, 7)]
    what = "update not finite: left out of the round"
    events = [{"round": t, "what": what, "clients": [t, t + 10]} for t in range(1, 6)]
    text = texts([write_run(tmp_path / "a", ["run.seed=4"], rows, events=events)])
    assert "fedavg: training accuracy halved within a round, seed 4 in rounds 2, 5." in text
    assert f"fedavg: {what} (5 times; seeds 4; rounds 1, 2, 3, 4, 5; clients 1, 2, 3, 4, 5, 11 and 4 more)." in text


def test_repeated_and_unequal_seeds_are_told(folder: Folder):
    runs = [folder("fedavg", 0, [0.1]), folder("fedavg", 0, [0.1]), folder("ghbm", 1, [0.1])]
    text = texts(runs)
    assert f"fedavg, seed 0: there twice; {runs[1].path} is not counted." in text
    assert "The curves do not have the same seeds (fedavg: 0; ghbm: 1)" in text


def test_the_command_of_a_comparison_plans_the_same_runs(folder: Folder):
    settings = ("data.partition=dirichlet", "data.alpha=0.3", "local.epochs=2", "run.rounds=7", "run.cohort=0.2")
    settings = (*settings, "run.evaluate_every=1")
    runs = [folder(name, s, [0.1], *settings) for name in ("fedavg", "ghbm") for s in (2, 3)]
    (command,) = commands(group(runs))
    program, verb, first, second, *overrides = shlex.split(command)
    assert (program, verb, first, second) == ("driftless", "compare", "fedavg", "ghbm")
    planned = comparing.plan([first, second], None, overrides).runs.values()
    seeds = [(config.algorithm.name, config.run.seed) for resolved in planned for config in [resolved.config]]
    assert seeds == [("fedavg", 2), ("fedavg", 3), ("ghbm", 2), ("ghbm", 3)]
    ours = {str(identity(settings_of(run.config))) for run in runs}
    assert {str(identity(settings_of(resolved.config))) for resolved in planned} == ours


def test_curves_with_settings_of_their_own_have_a_command_each_that_plans_the_same_runs(folder: Folder):
    own = {"fedavg": ["local.lr=0.2"], "ghbm": ["algorithm.tau=5", "data.seed=3"]}
    runs = [folder(n, s, [0.1], *each, "run.evaluate_every=1") for n, each in own.items() for s in (0, 1)]
    found = commands(group(runs))
    assert len(found) == 2
    for command, name, stored in zip(found, own, (runs[:2], runs[2:]), strict=True):
        program, verb, algorithm, *overrides = shlex.split(command)
        assert (program, verb, algorithm) == ("driftless", "compare", name)
        planned = [resolved.config for resolved in comparing.plan([name], None, overrides).runs.values()]
        for again, run in zip(planned, stored, strict=True):
            assert identity(settings_of(again)) == identity(settings_of(run.config))
            assert (again.run.seed, again.data.seed) == (run.config.run.seed, run.config.data.seed)


def test_seeds_that_do_not_follow_one_another_are_runs(folder: Folder):
    found = commands(group([folder("fedavg", s, [0.1]) for s in (1, 4)]))
    assert found == ["driftless run run.rounds=1 run.seed=1", "driftless run run.rounds=1 run.seed=4"]


@pytest.mark.parametrize(
    "settings",
    [
        ("local.lr=0.3", "algorithm.tau=5", "run.seed=4"),
        ("run.cohort=[[0, 1]]", "data.seed=3", "server.warmup_rounds=2"),
    ],
)
def test_the_command_of_a_run_gives_its_configuration_back(tmp_path: Path, settings: tuple[str, ...]):
    run = write_run(tmp_path / "a", ["algorithm=ghbm", "run.rounds=1", *settings], [{"round": 1}])
    (command,) = commands(group([run]))
    program, verb, *overrides = shlex.split(command)
    assert (program, verb) == ("driftless", "run")
    again, ours = settings_of(resolve(None, overrides).config), settings_of(run.config)
    assert identity(again) == identity(ours)
    assert [again[key] for key in ("run.seed", "data.seed")] == [ours[key] for key in ("run.seed", "data.seed")]


def test_a_command_that_nobody_would_read_names_the_stored_configuration(tmp_path: Path):
    cohort = ", ".join("[0, 1, 2, 3]" for _ in range(200))
    run = write_run(tmp_path / "a b", [f"run.cohort=[{cohort}]"], [{"round": 1}])
    (command,) = commands(group([run]))
    assert shlex.split(command) == ["driftless", "run", str(tmp_path / "a b" / "config.toml")]


def test_machines_list_every_value_that_occurs_and_survive_a_missing_file(folder: Folder):
    first = folder("fedavg", 0, [0.1], environment={"torch": "2.13.0", "cores": 2, "started": "2026-01-02"})
    second = folder("fedavg", 1, [0.1], environment={"torch": "2.13.0", "cores": 8, "started": "2026-01-01"})
    assert machines(group([first, second])) == [
        ("torch", "2.13.0"), ("cores", "2; 8"), ("started", "2026-01-01 to 2026-01-02"),
    ]  # fmt: skip
    lost = folder("fedavg", 2, [0.1], environment=None)
    assert machines(group([lost])) == [("environment.json", f"cannot be read in {lost.path}")]
