"""Searches on twenty clients of the digits, three rounds a run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console

from driftless.algorithms import ALGORITHMS
from driftless.config import build
from driftless.config.resolution import resolve
from driftless.config.stored import different_settings
from driftless.errors import InputError
from driftless.report.search_plot import draw_parameter, write_search_plot
from driftless.runs.directory import StoredRun, find_runs
from driftless.runs.run import start as start_run
from driftless.tune import plan as search_plan
from driftless.tune import search as tune
from driftless.tune.space import Choices, Range

pytest.importorskip("optuna")

TINY = ["clients=20", "rounds=3", "cohort=5", "epochs=1", "batch_size=20", "engine=single"]
LR = "space.local.lr=[0.01,0.1,0.5]"


def tiny(*overrides: str) -> list[str]:
    """The settings of all tests, with some replaced."""
    given = {text.partition("=")[0] for text in overrides}
    return [*(text for text in TINY if text.partition("=")[0] not in given), *overrides]


def search(folder: Path, *overrides: str, jobs: int = 1, file: Path | None = None) -> tune.Outcome:
    plan = tune.plan(file, tiny(*overrides))
    return tune.execute(plan, folder, lambda done, said: None, jobs)


def params(outcome: tune.Outcome) -> list[dict[str, Any]]:
    return [trial.params for trial in outcome.trials]


def values(outcome: tune.Outcome) -> list[float | None]:
    return [trial.value for trial in outcome.trials]


def runs(folder: Path) -> list[StoredRun]:
    return [StoredRun(path) for path in sorted(folder.glob("trial-*"))]


# The search


def test_a_grid_tries_every_point_once(tmp_path: Path):
    outcome = search(tmp_path / "a", "sampler=grid", LR, "space.local.epochs={low=1, high=3, step=2}")
    tried = [(p["local.lr"], p["local.epochs"]) for p in params(outcome)]
    assert sorted(tried) == [(lr, epochs) for lr in (0.01, 0.1, 0.5) for epochs in (1, 3)]
    assert [trial.number for trial in outcome.trials] == list(range(6))


@pytest.mark.parametrize(("sampler", "trials"), [("random", 5), ("tpe", 12)])  # TPE begins with ten at random
def test_the_same_seed_suggests_the_same_also_when_the_search_is_continued(tmp_path: Path, sampler: str, trials: int):
    chosen = ["rounds=1", "clients=10", f"sampler={sampler}", "algorithm=fedprox", "pruner=none"]
    at_once = search(tmp_path / "a", *chosen, f"trials={trials}")
    search(tmp_path / "b", *chosen, "trials=3")
    continued = search(tmp_path / "b", *chosen, f"trials={trials}")
    assert params(at_once) == params(continued)
    assert values(at_once) == values(continued)
    other = search(tmp_path / "c", *chosen, "trials=1", "seed=1")
    assert params(other)[0] != params(at_once)[0]


def test_suggestions_lie_in_the_space_and_have_its_types(tmp_path: Path):
    space = ["space.lr={low=0.05, high=0.5, log=true}", "space.epochs={low=1, high=3}", "space.tau={low=2, high=4}"]
    space += ['space.start=["zero", "clamp"]', "space.server_lr={low=0, high=1, step=0.25}"]
    with pytest.raises(InputError, match=r"space.algorithm.server_lr cannot hold 0.0: server_lr of GHBM"):
        search(tmp_path / "a", "algorithm=ghbm", *space)
    outcome = search(tmp_path / "a", "algorithm=ghbm", "trials=4", *space[:-1], "space.server_lr={low=1, high=2}")
    for p in params(outcome):
        assert 0.05 <= p["local.lr"] <= 0.5
        assert p["local.epochs"] in (1, 2, 3)
        assert isinstance(p["algorithm.tau"], int)
        assert p["algorithm.start"] in ("zero", "clamp")
        assert 1 < p["algorithm.server_lr"] < 2  # a real setting: whole bounds do not make it whole


def test_the_objective_does_not_depend_on_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = ["trials=3", LR, "algorithm=adabest"]
    before = search(tmp_path / "a", *options)
    load = build.load

    def with_other_test_set(*args: Any, **kwargs: Any):
        federation = load(*args, **kwargs)
        inputs, targets = federation.test
        return dataclasses.replace(federation, test=(torch.zeros_like(inputs), (targets + 1) % 10))

    monkeypatch.setattr(build, "load", with_other_test_set)
    after = search(tmp_path / "b", *options)
    assert values(before) == values(after)
    assert params(before) == params(after)
    test = [run.rows[-1]["test_accuracy"] for folder in "ab" for run in runs(tmp_path / folder)]
    assert test[:3] != test[3:]
    held_out = [row["validation_accuracy"] for row in runs(tmp_path / "a")[0].rows]
    assert before.trials[0].value == pytest.approx(sum(held_out) / 3)


def test_the_objective_is_the_mean_of_the_last_evaluations_and_of_minus_the_loss_for_numbers():
    plan = tune.plan(None, tiny("tune.last=2", "evaluate_every=2", "rounds=5"))
    rows = [{"round": round} for round in range(1, 6)]
    accuracies = [{}, {"validation_accuracy": 0.9}, {}, {"validation_accuracy": 0.3}, {"validation_accuracy": 0.5}]
    assert tune.objective([r | a for r, a in zip(rows, accuracies, strict=True)], plan) == pytest.approx(0.4)
    plan = dataclasses.replace(plan, objective="validation_loss", mode="min")
    losses = [{}, {"validation_loss": 9.0}, {}, {"validation_loss": 3.0}, {"validation_loss": 1.0}]
    assert tune.objective([r | a for r, a in zip(rows, losses, strict=True)], plan) == -2.0
    losses[-1] = {}  # a run leaves out what is not finite
    assert tune.objective([r | a for r, a in zip(rows, losses, strict=True)], plan) == -float("inf")


def test_clients_are_held_out_by_default_and_the_user_is_told(tmp_path: Path):
    plan = tune.plan(None, TINY)
    assert plan.base.config.data.validation == 0.2
    assert "20% of them" in plan.notes[0]
    with pytest.raises(InputError, match=r"cohort of 20 clients is larger .* no clients were held out: 20% of them"):
        tune.plan(None, tiny("cohort=20"))
    assert not tune.plan(None, tiny("data.validation=3")).notes
    outcome = search(tmp_path / "a", "trials=1", "validation=3")
    assert build.federation_of(runs(outcome.folder)[0].config).clients == 17


def test_several_seeds_are_runs_of_one_trial_and_their_mean_counts(tmp_path: Path):
    outcome = search(tmp_path / "a", "seeds=2", "seed=3", "space.lr=[0.3]", "sampler=grid")
    stored = [StoredRun(tmp_path / "a" / "trial-0000" / f"seed-{seed}") for seed in (3, 4)]
    assert [run.seed for run in stored] == [3, 4]
    single = [tune.objective(run.rows, outcome.plan) for run in stored]
    assert values(outcome) == [pytest.approx(sum(single) / 2)]
    assert single[0] != single[1]


def test_every_algorithm_has_a_default_space_that_it_accepts():
    for name in ALGORITHMS:
        space = tune.plan(None, ["clients=15", f"algorithm={name}"]).space
        assert ("local.lr" in space) == (name != "fedsgd"), name
        assert all(isinstance(dim, Range) for dim in space.values())
    assert list(tune.plan(None, tiny("algorithm=adabest")).space) == [
        "local.lr", "algorithm.mu", "algorithm.beta"
    ]  # fmt: skip


# Bad trials


def test_a_bad_trial_is_pruned_and_its_run_says_stopped(tmp_path: Path):
    lrs = "space.local.lr=[0.3,0.31,0.32,0.33,0.34,0.35,0.36,1e-6,1e-7,1e-8]"
    outcome = search(tmp_path / "a", "sampler=grid", lrs, "rounds=6")
    pruned = [trial for trial in outcome.trials if trial.state == "pruned"]
    assert pruned
    assert any(trial.params["local.lr"] < 1e-5 for trial in pruned)
    for trial in pruned:
        run = StoredRun(tmp_path / "a" / f"trial-{trial.number:04d}")
        assert run.result is not None
        assert run.result["status"] == "stopped"
        assert run.result["reason"].startswith("pruned: validation accuracy")
        assert trial.rounds == len(run.rows) < 6


def test_a_trial_that_diverges_is_the_worst_and_no_crash(tmp_path: Path):
    outcome = search(tmp_path / "a", "sampler=grid", "space.lr=[0.1,1e38]", "rounds=5")
    states = {trial.params["local.lr"]: trial.state for trial in outcome.trials}
    assert states == {0.1: "finished", 1e38: "diverged"}
    assert outcome.best is not None
    assert outcome.best.params == {"local.lr": 0.1}
    assert write_search_plot(outcome).exists()
    assert json.loads(json.dumps(tune.as_json(outcome), allow_nan=False))["trials"][1]["objective"] is None


def test_when_every_trial_diverges_there_is_no_best(tmp_path: Path):
    outcome = search(tmp_path / "a", "sampler=grid", "space.lr=[1e37,1e38]", "rounds=5")
    assert outcome.best is None
    assert not (tmp_path / "a" / "best.toml").exists()
    assert "diverged" in text_of(outcome)


# What it leaves behind


def test_best_toml_repeats_the_best_trial_exactly(tmp_path: Path):
    outcome = search(tmp_path / "a", "trials=4", "algorithm=adabest", "engine=auto")
    assert outcome.best is not None
    resolved = resolve(tmp_path / "a" / "best.toml", [])
    again = start_run(resolved, tmp_path / "again")
    assert tune.objective(again.rows, outcome.plan) == outcome.best.value
    assert max(trial.value or 0 for trial in outcome.trials) == outcome.best.value
    assert len(find_runs([tmp_path / "a"])) == 4


def test_the_picture_is_made_and_has_the_axes_of_the_space(tmp_path: Path):
    outcome = search(tmp_path / "a", "trials=3", "algorithm=fedgbo", 'space.optimizer=["sgdm","adam"]', LR)
    with Image.open(write_search_plot(outcome)) as image:
        assert image.format == "PNG"
        assert min(image.size) > 300
    axes = Figure().add_subplot()
    draw_parameter(axes, outcome, outcome.trials, "local.lr", Range(0.01, 1.0, log=True))
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == pytest.approx((0.01 / 100**0.05, 100**0.05))
    axes = Figure().add_subplot()
    draw_parameter(axes, outcome, outcome.trials, "local.lr", Choices((0.5, 0.01, 0.1)))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.01", "0.1", "0.5"]


def text_of(outcome: tune.Outcome) -> str:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(tune.rich_table(outcome))
    console.file.close()
    return console.export_text()


def test_the_table_shows_the_best_first_and_no_test_numbers(tmp_path: Path):
    text = text_of(search(tmp_path / "a", "sampler=grid", LR))
    assert "validation accuracy" in text
    assert "test" not in text
    assert "best" in text.splitlines()[1]


# Continuing


def test_a_folder_of_another_search_is_refused_and_more_trials_continue(tmp_path: Path):
    search(tmp_path / "a", LR, "trials=1")
    with pytest.raises(InputError, match=r"holds another search: space.local.lr is \[0.01, 0.1, 0.5\] there"):
        search(tmp_path / "a", "space.local.lr=[0.2,0.4]", "trials=1")
    with pytest.raises(InputError, match=r"holds another search: run.rounds is 3 there and 2 here"):
        search(tmp_path / "a", LR, "trials=1", "rounds=2")
    assert len(search(tmp_path / "a", LR, "trials=2").trials) == 2
    plan = tune.read_plan(tmp_path / "a")
    assert plan.trials == 2
    assert len(tune.execute(plan, tmp_path / "a", lambda done, said: None, 1).trials) == 2
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").touch()
    with pytest.raises(InputError, match="holds something else"):
        search(tmp_path / "b", LR)


def test_the_engine_does_not_make_another_search_but_its_precision_does():
    """Earlier versions wrote into the plan what the engine had decided; a setting they did not have has its default."""
    here = search_plan.identity(tune.plan(None, tiny(LR, "engine=auto")))
    there = {**here, "engine.kind": "single", "engine.threads": 1, "engine.compile": "off", "engine.block_size": 1}
    del there["local.augment"]
    assert different_settings(there, here) == []
    assert different_settings({**there, "engine.precision": "float64"}, here) == ["engine.precision"]
    assert different_settings({**there, "local.lr_decay": 0.9}, here) == ["local.lr_decay"]


def test_ctrl_c_leaves_a_search_that_goes_on_where_it_was(tmp_path: Path):
    plan = tune.plan(None, tiny(LR, "trials=3", "sampler=grid"))

    def interrupt(done: int, said: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune.execute(plan, tmp_path / "a", interrupt, 1)
    assert [run.result is None for run in runs(tmp_path / "a")] == [False, True]
    seen: list[int] = []
    outcome = tune.execute(plan, tmp_path / "a", lambda done, said: seen.append(done), 1)
    assert seen[-1] == plan.rounds == 9
    assert values(outcome) == values(search(tmp_path / "b", LR, "sampler=grid"))


SCRIPT = """
import sys
from pathlib import Path
from driftless.tune import search as tune
plan = tune.plan(None, sys.argv[2:])
tune.execute(plan, Path(sys.argv[1]), lambda done, said: None, 1)
"""


def spawn(folder: Path, *overrides: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(folder), *tiny(*overrides)], env=environment
    )


def test_a_killed_search_is_finished_by_the_same_call_with_the_same_result(tmp_path: Path):
    options = ["trials=2", "rounds=15", "epochs=5", "checkpoint_every=4", "sampler=random"]
    process = spawn(tmp_path / "a", *options)
    running_trial = tmp_path / "a" / "trial-0001" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (running_trial.exists() and running_trial.read_bytes().count(b"\n") > 4):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "a" / "trial-0001" / "result.json").exists()
    after = search(tmp_path / "a", *options)
    whole = search(tmp_path / "b", *options)
    assert [trial.number for trial in after.trials] == [0, 1]
    assert params(after) == params(whole)
    assert values(after) == values(whole)
    assert {trial.state for trial in after.trials} <= {"finished", "pruned"}


def test_two_machines_share_a_study_without_doing_a_trial_twice(tmp_path: Path):
    shared = ["trials=4", "sampler=grid", "space.lr=[0.1,0.2,0.3,0.4]", "rounds=2", "study=shared"]
    shared += ["pruner=none", f"storage=sqlite:///{tmp_path / 'shared.db'}"]
    processes = [spawn(tmp_path / name, *shared) for name in ("a", "b")]
    assert [process.wait(60) for process in processes] == [0, 0]
    folders = [path.name for name in ("a", "b") for path in (tmp_path / name).glob("trial-*")]
    assert sorted(folders) == [f"trial-{number:04d}" for number in range(4)]
    outcome = search(tmp_path / "a", *shared)
    assert sorted(p["local.lr"] for p in params(outcome)) == [0.1, 0.2, 0.3, 0.4]
    assert values(outcome) == values(search(tmp_path / "c", *shared[:4], "pruner=none"))


def test_jobs_in_processes_give_the_same_trials_and_the_progress_reaches_the_end(tmp_path: Path):
    options = ["trials=3", "sampler=random", "pruner=none"]
    plan, seen = tune.plan(None, tiny(*options)), [0]
    parallel = tune.execute(plan, tmp_path / "a", lambda done, said: seen.append(done), 2)
    assert seen[-1] == plan.rounds == 9
    alone = search(tmp_path / "b", *options)
    assert (params(parallel), values(parallel)) == (params(alone), values(alone))
    assert parallel.best == alone.best


def test_a_run_of_another_search_in_the_way_is_not_taken_for_a_trial(tmp_path: Path):
    search(tmp_path / "a", LR, "trials=1", "sampler=grid", "seed=0")
    (tmp_path / "a" / "study.db").unlink()
    config = tmp_path / "a" / "trial-0000" / "config.toml"
    lr = StoredRun(config.parent).config.local.lr
    config.write_text(config.read_text().replace(f"lr = {lr}", "lr = 0.7"))
    with pytest.raises(InputError, match=r"holds a run of another search: local\.lr is 0\.7 there"):
        search(tmp_path / "a", LR, "trials=1", "sampler=grid", "seed=0")


# Errors


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("space.local.rl=[0.1]", "unknown key of section 'local' 'rl'; did you mean 'lr'"),
        ("space.momentun=[0.1]", "unknown key 'momentun'; did you mean 'momentum'"),
        ("space.algorithm.momentun=[0.1]", "'momentun'; did you mean 'momentum'"),
        ("space.eta=[0.1]", "here it is called local.lr"),
        ("space.data.alpha=[0.1]", "space.data.alpha cannot be searched"),
        ("space.rounds=[1,2]", "space.run.rounds cannot be searched"),
        ('space.algorithm=["fedavg","scaffold"]', "tune one at a time"),
        ("space.lr=0.1", "must be a list or a range, got 0.1"),
        ("space.lr=low=0.1", "in quotes on the command line"),
        ("space.lr=[]", "at least one"),
        ("space.lr=[0.1,0.1]", "different values"),
        ('space.lr=["a"]', "every value of space.local.lr must be a number, got 'a'"),
        ("space.epochs=[1.5]", "must be a whole number or none, got 1.5|must be a whole number, got 1.5"),
        ("space.lr={low=1}", "space.local.lr has no high"),
        ("space.lr={low=1,high=0.1}", "must have low < high"),
        ("space.lr={low=0,high=1,log=true}", "low > 0"),
        ("space.lr={low=0.1,high=1,stpe=1}", "unknown key of the range space.local.lr: 'stpe'; did you mean 'step'"),
        ("space.lr={low=0.1,high=1,step=3}", "step of space.local.lr"),
        ("space.last_batch={low=1,high=2}", "has no order"),
        ("space.lr=[0.1,-1]", "space.local.lr cannot hold -1.0: local.lr must be a number in"),
        ("sampler=tep", "unknown sampler 'tep'; did you mean 'tpe'"),
        ("pruner=medain", "unknown pruner 'medain'; did you mean 'median'"),
        ("trials=0", "tune.trials is 0"),
        ("tune.trails=3", "did you mean 'trials'"),
        ("patience=3", "watch the test set"),
        ("evaluate_every=0", "measures nothing"),
        ("sampler=grid", "a grid has no end"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(override: str, message: str):
    with pytest.raises(InputError, match=message):
        tune.plan(None, tiny("algorithm=fedavgm", override))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "storage 'nonsense' cannot be opened"),
        ("sqlite:////no/such/folder/study.db", "unable to open"),
        ("sqlite:///:memory:", "gone when the process ends"),
        ("oracle9://me:secret@host/db", r"storage 'oracle9://me:\*\*\*@host/db' cannot be opened"),
        ("postgresql://me:secret@127.0.0.1:1/db", r"me:\*\*\*@127.0.0.1:1/db' cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_an_error_that_shows_no_password(tmp_path: Path, url: str, message: str):
    with pytest.raises(InputError, match=message) as caught:
        search(tmp_path / "a", LR, f"storage={url}")
    assert "secret" not in str(caught.value)
    assert "SQLAlchemy URL" in str(caught.value) or "give a file" in str(caught.value)
    assert not (tmp_path / "a" / "study.json").exists()
    assert search(tmp_path / "a", LR, "trials=1").best


def test_a_password_is_not_written_and_has_to_be_given_again(tmp_path: Path):
    plan = tune.plan(None, tiny(LR, "storage=postgresql://me:secret@127.0.0.1:1/db"))
    search_plan.write_plan(dataclasses.replace(plan, name="a"), tmp_path)
    assert "secret" not in "".join(file.read_text() for file in tmp_path.iterdir())
    with pytest.raises(InputError, match=r"password of storage .* is not kept"):
        tune.execute(tune.read_plan(tmp_path), tmp_path, lambda done, said: None, 1)


def test_a_study_of_another_search_in_the_same_storage_is_refused(tmp_path: Path):
    storage = [f"storage=sqlite:///{tmp_path / 'shared.db'}", "study=ours", "trials=1"]
    search(tmp_path / "a", LR, *storage)
    with pytest.raises(InputError, match=r"study 'ours' in .* belongs to another search"):
        search(tmp_path / "b", "space.lr=[0.7]", *storage)


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install driftless\[tune\]"):
        tune.plan(None, TINY)


def test_the_table_of_a_file_is_read_quoted_or_not_and_the_command_line_wins(tmp_path: Path):
    file = tmp_path / "my.toml"
    file.write_text(
        "[run]\nrounds = 3\n[compare]\nseeds = 2\n[tune]\ntrials = 7\n[tune.space]\nlocal.lr = [0.1, 0.2]\n"
        '"local.epochs" = {low = 1, high = 2}\n'
    )
    plan = tune.plan(file, ["clients=20", "space.local.epochs=[1,2,3]", "trials=5"])
    assert plan.trials == 5
    assert plan.space == {"local.lr": Choices((0.1, 0.2)), "local.epochs": Choices((1, 2, 3))}
    assert plan.folder == Path("runs/tune-my")
    file.write_text("[tune]\nspace = 3\n")
    with pytest.raises(InputError, match=r"tune\.space is 3: input should be a valid dictionary"):
        tune.plan(file, [])


def test_the_example_file_is_a_search_that_can_be_planned():
    file = Path(__file__).parents[2] / "examples" / "tune-digits.toml"
    assert tune.plan(file, []).trials > 1


# What a search is judged by


def test_a_search_is_judged_by_the_monitored_metric_on_the_held_out_clients(tmp_path: Path):
    chosen = ["metrics=perplexity,f1", "sampler=grid", "space.local.lr=[0.01,0.5]", "last=1", "pruner=none"]
    low = search(tmp_path / "low", *chosen, "monitor=perplexity")
    assert (low.plan.objective, low.plan.mode) == ("validation_perplexity", "min")
    final = [run.rows[-1]["validation_perplexity"] for run in runs(tmp_path / "low")]
    assert values(low) == [-value for value in final]
    assert low.best is not None
    assert low.shown(low.best.value) == min(final)
    assert "validation perplexity" in (tmp_path / "low" / "best.toml").read_text(encoding="utf-8")
    assert search_plan.read_plan(tmp_path / "low").mode == "min"
    high = search(tmp_path / "high", *chosen, "monitor=validation_f1")
    assert values(high) == [run.rows[-1]["validation_f1"] for run in runs(tmp_path / "high")]


def test_a_column_that_held_out_clients_do_not_have_cannot_judge_a_search():
    with pytest.raises(InputError, match=r"'test_p5' is not measured; set evaluate.monitor to one of validation_loss"):
        tune.plan(None, tiny("monitor=test_p5"))
