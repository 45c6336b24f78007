"""`driftless.run`, `tune`, `load_run`, `report` with objects of a script: on disk, continued, never mixed up."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import driftless
from driftless import Federation, InputError, LocalTraining
from driftless.algorithms import AdaBest, AdaptiveClipping, FedAvg
from engine.problems import classification, network, seeded
from runs.runs import assert_same_run, command, lines, process, wait_until

SIZES = [7, 5, 9, 6, 8, 7]


@dataclass(frozen=True)
class Damped(FedAvg):
    """FedAvg whose server goes only a part of the way."""

    damping: float = 0.25

    def update(self, server: Any, mean: Any, r: Any) -> Any:
        return server._replace(x=server.x + (1 - self.damping) * mean.delta)


def smooth(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)


def settings(**changes: Any) -> dict[str, Any]:
    local = LocalTraining(lr=0.1, epochs=2, batch_size=4)
    return {"rounds": 6, "cohort": 3, "local": local, "loss": smooth, "checkpoint_every": 2} | changes


def run(folder: Path, algorithm: Any = None, federation: Any = None, model: Any = None, **changes: Any):
    algorithm = Damped(damping=0.3) if algorithm is None else algorithm
    federation = classification(SIZES) if federation is None else federation
    return driftless.run(algorithm, federation, model or network(), output=folder, **settings(**changes))


def simulate(**changes: Any) -> driftless.Result:
    given = settings(**changes)
    given.pop("checkpoint_every")
    return driftless.simulate(Damped(damping=0.3), classification(SIZES), network(), **given)


def test_a_learning_rate_for_each_round_and_momentum_are_kept_on_disk(tmp_path: Path):
    local = LocalTraining(lr=[0.2, 0.1, 0.05], batch_size=None, momentum=0.5)
    stored, result = run(tmp_path / "run", local=local), simulate(local=local)
    assert torch.equal(stored.state["server.x"], result.x)
    assert stored.history["lr"] == [0.2, 0.1, 0.05, 0.05, 0.05, 0.05]
    assert stored.config.local.batch_size is None
    assert torch.equal(run(tmp_path / "run", local=local).state["server.x"], result.x)


def test_a_run_on_disk_has_the_bits_and_the_history_of_simulate(tmp_path: Path):
    stored, result = run(tmp_path / "run"), simulate()
    assert torch.equal(stored.state["server.x"], result.x)
    assert stored.history["test_loss"] == result.history["test_loss"]
    assert stored.result is not None
    assert stored.result["status"] == "finished"


def test_what_was_evaluated_is_in_model_safetensors_by_the_modules_own_names(tmp_path: Path):
    stored = run(tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert weights.keys() == network().state_dict().keys()
    fresh = network().float()
    fresh.load_state_dict(weights)
    inputs = torch.randn(5, 4)
    assert torch.equal(stored.module(network().float())(inputs), fresh(inputs))
    assert torch.equal(simulate().module()(inputs), fresh(inputs))


def test_a_result_is_saved_as_safetensors(tmp_path: Path):
    result = simulate()
    result.save(tmp_path / "net.safetensors")
    fresh = network().float()
    fresh.load_state_dict(load_file(tmp_path / "net.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), result.module().parameters(), strict=True))


def test_a_frozen_part_and_buffers_are_in_the_file_too(tmp_path: Path):
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, affine=False).eval(), nn.Linear(6, 3))
    net[0].requires_grad_(False)
    net[1].register_buffer("scale", torch.tensor([2.0]))
    run(tmp_path / "run", model=net, algorithm=FedAvg())
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert weights.keys() == net.state_dict().keys()
    assert torch.equal(weights["0.weight"], net[0].weight)
    assert not torch.equal(weights["2.weight"], net[2].weight)


def test_the_module_of_a_model_with_a_name_needs_nothing_more(tmp_path: Path):
    federation = driftless.load("digits", clients=20, partition="iid")
    stored = run(tmp_path / "run", algorithm="adabest", federation=federation, model="logistic", loss=None)
    module = driftless.load_run(tmp_path / "run").module()
    accuracy = (module(federation.test[0]).argmax(1) == federation.test[1]).double().mean()  # pyright: ignore[reportOptionalSubscript]
    assert float(accuracy) == pytest.approx(stored.history.last("test_accuracy"))


def test_a_model_given_in_python_is_asked_for_again(tmp_path: Path):
    run(tmp_path / "run")
    with pytest.raises(InputError, match=r"was given in Python; give a module like it: module\(Net\(\)\)"):
        driftless.load_run(tmp_path / "run").module()


def test_a_record_makes_the_module_of_its_round(tmp_path: Path):
    seen: list[torch.Tensor] = []

    def keep(record: driftless.Record) -> None:
        seen.append(torch.cat([p.detach().flatten() for p in record.module().parameters()]))
        assert torch.equal(seen[-1], record.x)

    run(tmp_path / "run", on_round=keep)
    assert len(seen) == 6
    assert not torch.equal(seen[0], seen[-1])


def test_the_same_call_returns_the_finished_run_and_plays_nothing(tmp_path: Path):
    first = run(tmp_path / "run")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    again = run(tmp_path / "run", on_round=lambda record: pytest.fail("a round was played"))
    assert again.rows == first.rows
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == written


DIFFERENCES = {
    "a setting": ({"rounds": 7}, "run.rounds is 6 there and 7 here"),
    "a setting of the training": ({"local": LocalTraining(lr=0.2, epochs=2, batch_size=4)}, "local.lr is 0.1 there"),
    "a hyper-parameter": ({"algorithm": Damped(damping=0.5)}, "algorithm.damping is 0.3 there and 0.5 here"),
    "an algorithm": ({"algorithm": AdaBest()}, "algorithm.name is python:Damped there and adabest here"),
    "data": ({"federation": classification(SIZES, seed=1)}, "the data changed"),
    "test data": (
        {"federation": Federation.from_clients([classification(SIZES).client(i) for i in range(6)],
                                               test=classification([4], seed=5).client(0), classes=3)},
        "the data changed",
    ),
    "shapes": (
        {"model": seeded(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.0), nn.Linear(5, 3)))},
        "names and shapes of the model's parameters changed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_another_setting_model_or_data_in_the_same_folder_is_an_error_that_names_it(name: str, tmp_path: Path):
    run(tmp_path / "run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    changes, message = DIFFERENCES[name]
    with pytest.raises(InputError, match=re.escape(message)):
        run(tmp_path / "run", **changes)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_another_beginning_of_the_same_model_is_an_error_that_names_it(tmp_path: Path):
    run(tmp_path / "run")
    other = network()
    with torch.no_grad():
        other[0].weight.add_(1e-3)  # pyright: ignore[reportIndexIssue]
    with pytest.raises(InputError, match="the parameters at which the model begins changed"):
        run(tmp_path / "run", model=other)


def test_another_loss_in_the_same_folder_is_an_error_that_names_it(tmp_path: Path):
    run(tmp_path / "run")

    def smooth(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.2)

    with pytest.raises(InputError, match="the code of the loss changed"):
        run(tmp_path / "run", loss=smooth)


def test_wrappers_schedules_and_lists_are_described(tmp_path: Path):
    cohorts = [[0, 1], [2, 3], [4, 5], [0, 2], [1, 3], [0, 5]]
    algorithm = AdaptiveClipping(AdaBest(beta=0.9), quantile=0.5)
    stored = run(tmp_path / "run", algorithm=algorithm, cohort=cohorts, dtype=torch.float64)
    assert stored.config.algorithm.name == "adabest"
    assert stored.config.server.clipping_quantile == 0.5
    assert stored.config.engine.precision == "float64"
    result = driftless.simulate(
        algorithm, classification(SIZES), network(), rounds=6, cohort=cohorts,
        local=LocalTraining(lr=0.1, epochs=2, batch_size=4), loss=smooth, dtype=torch.float64,
    )  # fmt: skip
    assert torch.equal(stored.state["server.inner.x"], result.x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"round": 3}, "unknown argument 'round'; did you mean 'rounds'?"),
        ({"rounds": None}, "run.rounds"),
        ({"local": {"lr": 1}}, "write local=driftless.LocalTraining"),
        ({"output": 3}, "output must be the path of a folder"),
        ({"dtype": torch.int64}, "dtype must be one of"),
        ({"on_round": 3}, "on_round must be a function"),
        ({"model": 3}, "model must be a model's name or an nn.Module"),
        ({"model": lambda: 3}, "needs a torch.nn.Module, or a class or function that makes one"),
    ],
)
def test_a_mistake_is_explained_and_nothing_is_written(given: dict[str, Any], message: str, tmp_path: Path):
    arguments = {"output": tmp_path / "run", **settings(), **given}
    model = arguments.pop("model", network())
    with pytest.raises(InputError, match=re.escape(message)):
        driftless.run(Damped(), classification(SIZES), model, **arguments)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_no_run_cannot_be_loaded(tmp_path: Path):
    with pytest.raises(InputError, match="is not a run directory"):
        driftless.load_run(tmp_path)


def test_tune_finds_settings_of_an_own_algorithm_and_continues(tmp_path: Path):
    space = {"damping": (0.01, 0.9, "log"), "lr": [0.05, 0.1]}
    given = settings(rounds=3)
    given.pop("checkpoint_every")
    federation = classification([9] * 10)

    def search(trials: int) -> driftless.Best:
        return driftless.tune(
            Damped(), federation, network(), space=space, trials=trials, jobs=1, output=tmp_path / "search", **given
        )

    few = search(2)
    best = search(4)
    assert len(few.trials) == 2
    assert len(best.trials) == 4
    assert best.algorithm == Damped(damping=best.settings["algorithm.damping"])
    assert best.local.lr == best.settings["local.lr"]
    assert best.value == max(trial["objective"] for trial in best.trials if trial["state"] == "finished")
    given["local"] = LocalTraining(lr=0.1, epochs=3, batch_size=4)
    with pytest.raises(InputError, match=r"holds another search: local\.epochs is 2 there and 3 here"):
        search(4)


@pytest.mark.parametrize("value", [(1,), (1, 2, "lin"), (0.1, 1.0, "log", 3)])
def test_a_range_that_is_none_is_explained(value: Any, tmp_path: Path):
    with pytest.raises(InputError, match=r'a range is \(low, high\) or \(low, high, "log"\)'):
        driftless.tune(
            Damped(),
            classification(SIZES),
            network(),
            space={"damping": value},
            output=tmp_path / "s",
            rounds=2,
            cohort=2,
        )


def test_the_functions_stay_functions_when_the_packages_of_their_names_are_used(tmp_path: Path):
    run(tmp_path / "run")
    page = driftless.report([tmp_path / "run"], tmp_path / "report.html")
    assert page.stat().st_size > 10_000
    assert all(callable(each) for each in (driftless.run, driftless.compare, driftless.tune, driftless.report))


SCRIPT = """
import sys, time
import torch
from torch import nn
import driftless
from driftless.algorithms import Scaffold

generator = torch.Generator().manual_seed(0)
inputs = torch.randn(60, 4, generator=generator)
clients = [(inputs[i::6], (inputs[i::6].sum(1) > 0).long()) for i in range(6)]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
federation = driftless.Federation.from_clients(clients, test=clients[0])
stored = driftless.run(
    Scaffold(), federation, net, rounds=30, cohort=3, checkpoint_every=4,
    local=driftless.LocalTraining(lr=0.1, epochs=2, batch_size=4), loss=lambda o, t: nn.functional.cross_entropy(o, t),
    output=sys.argv[1], on_round=lambda record: time.sleep(float(sys.argv[2])),
)
print("played", len(stored.history))
"""


def test_a_script_that_was_killed_and_is_run_again_comes_to_the_same_bits(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    program = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    with process(script, tmp_path / "part", 0.05, program=program) as child:
        wait_until(lambda: lines(tmp_path / "part") >= 11, child)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    for folder in ("part", "whole"):
        with process(script, tmp_path / folder, 0, program=program) as child:
            out, err = child.communicate(timeout=120)
            assert "played 30" in out, err
    assert_same_run(tmp_path / "part", tmp_path / "whole")


def test_the_command_line_says_that_a_run_of_a_script_is_continued_by_the_script(tmp_path: Path, monkeypatch, capsys):
    run(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    ended = command(monkeypatch, capsys, "resume", tmp_path / "run")
    assert ended.code == 2
    assert "'python:Damped' is an object of the script" in ended.err
    assert "run that script again" in ended.err


def compare(folder: Path, algorithms: Any = None, **changes: Any) -> driftless.ComparisonResult:
    given = settings(rounds=3, jobs=1, seeds=2) | changes
    federation = given.pop("federation", classification(SIZES))
    algorithms = algorithms or {"fedavg": "fedavg", "mine": Damped(damping=0.1), "other": Damped(damping=0.6)}
    return driftless.compare(algorithms, federation, given.pop("model", network()), output=folder, **given)


def test_a_comparison_of_own_algorithms_has_the_bits_of_single_runs(tmp_path: Path):
    table = compare(tmp_path / "cmp")
    assert [run.path.relative_to(tmp_path / "cmp").as_posix() for run in table.runs] == [
        f"{name}/seed-{seed}" for name in ("fedavg", "mine", "other") for seed in (0, 1)
    ]
    alone = run(tmp_path / "alone", algorithm=Damped(damping=0.6), rounds=3, seed=1)
    assert torch.equal(table.runs[-1].state["server.x"], alone.state["server.x"])
    assert {row["curve"] for row in table.rows} == {"fedavg", "mine", "other"}
    assert "mine" in str(table)


def test_a_comparison_in_several_processes_has_the_same_bits_and_needs_no_guard(tmp_path: Path):
    one, two = compare(tmp_path / "one"), compare(tmp_path / "two", jobs=2)
    for a, b in zip(one.runs, two.runs, strict=True):
        assert_same_run(a.path, b.path)


def test_a_comparison_is_continued_and_one_with_other_data_settings_or_code_is_refused(tmp_path: Path):
    first = compare(tmp_path / "cmp", seeds=1)
    again = compare(tmp_path / "cmp", seeds=1)
    assert again.rows == first.rows
    with pytest.raises(InputError, match=r"local\.lr of 'fedavg/seed-0' is 0\.1 there and 0\.2 here"):
        compare(tmp_path / "cmp", seeds=1, local=LocalTraining(lr=0.2, epochs=2, batch_size=4))
    with pytest.raises(InputError, match="the data changed"):
        compare(tmp_path / "cmp", seeds=1, federation=classification(SIZES, seed=3))
    with pytest.raises(InputError, match="'fedavg/seed-1' is only here"):
        compare(tmp_path / "cmp", seeds=2)


def test_a_factory_begins_each_seed_at_its_own_parameters_and_a_module_all_at_the_same(tmp_path: Path):
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

    def beginnings(folder: Path) -> set[str]:
        return {
            (folder / "fedavg" / f"seed-{seed}" / "fingerprint.json").read_text().split('"x0"')[1] for seed in (0, 1)
        }

    compare(tmp_path / "made", {"fedavg": "fedavg"}, model=make)
    compare(tmp_path / "given", {"fedavg": "fedavg"}, model=network())
    assert len(beginnings(tmp_path / "made")) == 2
    assert len(beginnings(tmp_path / "given")) == 1


def test_settings_of_one_algorithm_and_a_sweep_of_a_comparison(tmp_path: Path):
    table = compare(
        tmp_path / "cmp",
        ["fedavg", "scaffold"],
        settings={"scaffold": {"lr": 0.05}},
        sweep={"local.epochs": [1, 2]},
        seeds=1,
    )
    assert {(run.config.algorithm.name, run.config.local.lr, run.config.local.epochs) for run in table.runs} == {
        ("fedavg", 0.1, 1), ("fedavg", 0.1, 2), ("scaffold", 0.05, 1), ("scaffold", 0.05, 2)
    }  # fmt: skip
    with pytest.raises(InputError, match="unknown name in settings 'scafold'"):
        compare(tmp_path / "other", ["fedavg", "scaffold"], settings={"scafold": {"lr": 0.05}})


def test_own_metrics_are_in_the_history_of_a_run_and_judge_it(tmp_path: Path):
    def share_of_first(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        return float((outputs.argmax(1) == 0).double().mean())

    evaluation = driftless.EvaluationSettings({"f1": "f1", "share": share_of_first}, monitor="share", mode="min")
    stored = run(tmp_path / "run", evaluation=evaluation)
    assert len(stored.history["test_share"]) == 6
    assert len(stored.history["test_f1"]) == 6
    assert stored.result is not None
    assert stored.result["best"] == min(stored.history["test_share"])

    def share_of_first(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        return float((outputs.argmax(1) == 1).double().mean())

    with pytest.raises(InputError, match="the code of a metric changed"):
        run(tmp_path / "run", evaluation=driftless.EvaluationSettings(
            {"f1": "f1", "share": share_of_first}, monitor="share", mode="min"
        ))  # fmt: skip


def test_a_list_or_a_function_as_learning_rate_is_continued_too(tmp_path: Path):
    def falling(t: int) -> float:
        return 0.2 / t

    for name, lr in (("list", [0.2 / t for t in range(1, 7)]), ("function", falling)):
        local = LocalTraining(lr=lr, epochs=2, batch_size=4)
        stored = run(tmp_path / name, local=local)
        assert torch.equal(stored.state["server.x"], simulate(local=local).x)
        assert run(tmp_path / name, local=local).rows == stored.rows
