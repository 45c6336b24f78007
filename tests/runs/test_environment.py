"""What a run records of its surroundings: versions, instructions of the processor, how the data were divided."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from driftless import Federation, load
from driftless.errors import InputError
from driftless.runs.directory import StoredRun
from driftless.runs.environment import ENGINE, differences, environment, federation_summary
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, Records, command, start


def killed(directory: Path) -> Path:
    """A run as it is when its process is killed after round 5."""
    whole = directory / "whole"
    start(whole, callbacks=[AfterRound([5], lambda: shutil.copytree(whole, directory / "run"))])
    return directory / "run"


def test_the_instructions_that_torch_uses_are_recorded():
    assert environment(1)["cpu_capability"] == torch.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({}, ()),
        ({"torch": torch.__version__, "cpu": "another"}, ()),
        ({"torch": "1.0"}, (f"torch 1.0 -> {torch.__version__}: the continued run may differ in the last bits",)),
    ],
)
def test_only_what_decides_the_bits_is_compared(recorded: dict[str, str], expected: tuple[str, ...]):
    assert differences(recorded) == expected


def test_a_run_that_is_resumed_elsewhere_goes_on_with_a_warning_as_an_event(tmp_path: Path):
    run = killed(tmp_path)
    recorded = json.loads((run / "environment.json").read_text())
    other = {"driftless": "0.0.1", "torch": "1.0", "cpu_capability": "ABACUS"}
    (run / "environment.json").write_text(json.dumps(recorded | other))
    seen, warned = Records(), []
    stored = resume_run(run, [seen], warned.append)
    assert (stored.result or {})["status"] == "finished"
    assert [event["what"] for event in stored.events] == [event.what for event in seen.events]
    assert warned == [event["what"] for event in stored.events[:3]]
    for said, (name, value) in zip(warned, other.items(), strict=True):
        assert said.startswith(f"{name} {value} -> ")


def test_the_user_is_told_what_is_different_before_the_run_goes_on(tmp_path: Path, monkeypatch, capsys):
    run = killed(tmp_path)
    recorded = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps(recorded | {"torch": "1.0"}))
    ended = command(monkeypatch, capsys, "resume", run, "--quiet")
    assert (ended.code, ended.out) == (0, "")
    assert f"warning: torch 1.0 -> {torch.__version__}" in ended.err


@pytest.mark.parametrize("engine", [None, 1, ENGINE + 1])
def test_a_run_of_another_engine_or_of_one_that_is_not_recorded_is_not_resumed(tmp_path: Path, engine: int | None):
    """The rules of its engine may have decided differently, so it would not reach the same bits."""
    run = killed(tmp_path)
    if engine is None:
        (run / "environment.json").unlink()
    else:
        recorded = json.loads((run / "environment.json").read_text())
        (run / "environment.json").write_text(json.dumps(recorded | {"engine": engine}))
    with pytest.raises(InputError, match=r"another engine.*driftless run \S+config\.toml output=DIR"):
        resume_run(run)


def test_the_federation_of_a_run_can_be_read_without_its_data(tmp_path: Path):
    stored = start(tmp_path / "run", "rounds=1", "data.partition=dirichlet", "data.alpha=0.3", "validation=4")
    federation = load("digits", clients=20, partition="dirichlet", alpha=0.3, seed=0, validation=4)
    assert stored.federation == federation_summary(federation)
    assert stored.federation == {
        "clients": 16,
        "examples": len(federation.inputs),
        "input_shape": [1, 8, 8],
        "target_shape": [],
        "sizes": federation.sizes.tolist(),
        "size_quantiles": (stored.federation or {})["size_quantiles"],
        "labels": federation.label_counts().tolist(),
        "classes": 10,
        "validation_clients": 4,
    }


def test_a_run_of_an_earlier_version_has_no_federation(tmp_path: Path):
    assert StoredRun(tmp_path).federation is None


def test_the_summary_of_a_large_federation_stays_small():
    """A hundred thousand clients of 1, 2 or 3 examples, a thousand classes."""
    sizes = np.arange(100_000) % 3 + 1
    owners = np.repeat(np.arange(100_000), sizes)
    labels = torch.arange(len(owners)) % 1000
    federation = Federation.from_assignment(torch.zeros(len(owners), 1), labels, owners, 100_000)
    summary = federation_summary(federation)
    assert summary["sizes"] == sizes[:1000].tolist()
    assert summary["size_quantiles"] == {"0": 1, "0.05": 1, "0.25": 1, "0.5": 2, "0.75": 3, "0.95": 3, "1": 3}
    assert np.array_equal(summary["labels"], federation.label_counts()[:100, :100])
    assert len(json.dumps(summary)) < 50_000


def test_regression_has_no_labels():
    summary = federation_summary(Federation.from_clients([(torch.ones(3, 2), torch.ones(3, 1))] * 2))
    assert (summary["labels"], summary["classes"], summary["sizes"]) == (None, None, [3, 3])


def test_several_inputs_are_summarised_by_their_names():
    several = {"ids": torch.ones(3, 2).long(), "mask": torch.ones(3)}
    summary = federation_summary(Federation.from_clients([(several, [0, 1, 1])] * 2))
    assert (summary["examples"], summary["input_shape"]) == (6, {"ids": [2], "mask": []})
    assert summary["labels"] == [[1, 2], [1, 2]]
