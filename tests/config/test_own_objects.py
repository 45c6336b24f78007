"""FILE.py:NAME wherever a name stands for code: data, partition, model, loss, learning rate, metric, cohort, output."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from driftless.config.build import simulation_of
from driftless.config.resolution import resolve, to_toml
from driftless.config.stored import changed_code, read_stored
from driftless.errors import InputError
from runs.runs import AfterRound, assert_same_run, resume, start

SOURCE = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import driftless

generator = torch.Generator().manual_seed(0)
inputs = torch.randn(60, 4, generator=generator)
labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
pair = (inputs, labels)
federation = driftless.Federation.from_clients([(inputs[i::6], labels[i::6]) for i in range(6)])


class Points(Dataset):
    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def __len__(self):
        return len(inputs)

    def __getitem__(self, i):
        return inputs[i] + self.shift, labels[i]


def users():
    return driftless.Examples(inputs, labels, test=pair, users=[i % 5 for i in range(60)])


def in_turn(labels, clients, first=0):
    return (np.arange(len(labels)) + first) % clients


class Wrapped(nn.Module):
    def __init__(self, federation, hidden=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, federation.classes))

    def forward(self, inputs):
        return {"logits": self.layers(inputs)}


def logits(outputs):
    return outputs["logits"]


def smooth(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)


def falling(t):
    return 0.1 / t


def spread(outputs, targets):
    return outputs.std()


def neighbours(t, clients, rng):
    return [t % clients, (t + 1) % clients]


number = 3
"""
BASE = ["engine=single", "rounds=3", "checkpoint_every=1", "epochs=1", "batch_size=5", "cohort=2"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "my.py"


def simulation(*words: str):
    settings = dict(word.split("=", 1) for word in ["data=my.py:federation", "model=mlp", *BASE, *words])
    return simulation_of(resolve(None, [f"{key}={value}" for key, value in settings.items()]).config)


@pytest.mark.parametrize(
    ("words", "clients"),
    [
        (["data=my.py:federation"], 6),
        (["data=my.py:pair", "data.clients=7", "partition=iid"], 7),
        (["data=my.py:Points", "data.shift=2", "data.clients=4", "partition=dirichlet", "data.alpha=1"], 4),
        (["data=my.py:users"], 5),
        (["data=my.py:users", "partition=iid", "data.clients=3"], 3),
        (["data=my.py:pair", "partition=my.py:in_turn", "data.first=2", "data.clients=8"], 8),
        (["data=digits", "partition=my.py:in_turn", "data.clients=12"], 12),
    ],
)
def test_own_data_are_a_federation_or_are_divided(words: list[str], clients: int, file: Path):
    assert simulation(*words).federation.clients == clients


def test_options_reach_the_factory_and_the_partition(file: Path):
    shifted = simulation("data=my.py:Points", "data.shift=2", "data.clients=2", "partition=iid").federation
    plain = simulation("data=my.py:Points", "data.clients=2", "partition=iid").federation
    torch.testing.assert_close(shifted.inputs, plain.inputs + 2)
    one, other = (simulation("data=my.py:pair", "partition=my.py:in_turn", "data.clients=3", f"data.first={first}")
                  for first in (0, 1))  # fmt: skip
    assert torch.equal(one.federation.client(1)[1], other.federation.client(2)[1])


def test_own_model_output_loss_learning_rate_metric_and_cohort(file: Path):
    own = simulation(
        "model=my.py:Wrapped", "model.hidden=5", "model.output=my.py:logits", "loss=my.py:smooth",
        "local.lr=my.py:falling", "data=my.py:users", "metrics=f1,my.py:spread", "cohort=my.py:neighbours",
    )  # fmt: skip
    assert own.model.size == 4 * 5 + 5 + 5 * 3 + 3
    assert [own.training.lr_at(t) for t in (1, 2)] == [0.1, 0.05]
    assert own.cohort.clients(1, 5, 0).tolist() == [1, 2]
    assert [metric.name for metric in own.evaluation.metrics] == ["f1", "spread"]


def test_a_run_of_all_of_them_is_resumed_to_the_same_bits_from_another_folder(file: Path, monkeypatch):
    words = [
        "data=my.py:users", "data.clients=none", "model=my.py:Wrapped", "model.output=my.py:logits",
        "loss=my.py:smooth", "local.lr=my.py:falling", "metrics=my.py:spread", "cohort=my.py:neighbours",
        "engine=single",
    ]  # fmt: skip
    whole, part = file.parent / "whole", file.parent / "elsewhere" / "part"
    start(whole, *words, callbacks=[AfterRound([5], lambda: shutil.copytree(whole, part))])
    monkeypatch.chdir(part.parent)
    resume(part)
    assert_same_run(whole, part)


def test_the_hash_of_every_file_is_recorded_and_a_change_is_named(file: Path):
    other = file.with_name("other.py")
    other.write_text("def lr(t):\n    return 0.1\n", encoding="utf-8")
    resolved = resolve(None, ["data=my.py:federation", "local.lr=other.py:lr", *BASE])
    stored = file.with_name("config.toml")
    stored.write_text(to_toml(resolved), encoding="utf-8")
    assert changed_code(stored) == ""
    other.write_text("def lr(t):\n    return 0.2\n", encoding="utf-8")
    assert "other.py' is not known to be the code of the run" in changed_code(stored)


def test_a_configuration_is_read_as_text_without_its_files(file: Path):
    resolved = resolve(
        None,
        ["data=my.py:Points", "data.shift=2", "model=my.py:Wrapped", "model.hidden=9", "metrics=my.py:spread", *BASE],
    )
    stored = file.with_name("config.toml")
    stored.write_text(to_toml(resolved), encoding="utf-8")
    file.unlink()
    config = read_stored(stored).config
    assert (config.data.model_extra or {})["shift"] == 2
    assert (config.model.model_extra or {})["hidden"] == 9


def test_paths_in_a_file_are_relative_to_it(file: Path, monkeypatch):
    config = file.with_name("config.toml")
    config.write_text('[data]\nname = "my.py:federation"\n[run]\ncohort = 2\nrounds = 1\n', encoding="utf-8")
    (file.parent / "below").mkdir()
    monkeypatch.chdir(file.parent / "below")
    assert resolve(config, []).config.data.name == f"{file}:federation"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=my.py:number"], "Federation"),
        (["data=my.py:federation", "data.clients=3"], "already comes as clients, so clients=3 has no use"),
        (["data=my.py:federation", "partition=iid"], "already comes as clients"),
        (["data=my.py:Points", "data.shfit=1"], "did you mean 'shift'?"),
        (["data=my.py"], "my.py"),
        (["model=my.py:number"], "needs a torch.nn.Module"),
        (["model=my.py:Wrapped"], "output="),
        (["model=my.py:Wrapped", "model.hiden=3"], "did you mean 'hidden'?"),
        (["model.output=logits"], "give a function of what the model returns"),
        (["loss=my.py:number"], "loss must be a function"),
        (["loss=hinge"], "unknown loss 'hinge'"),
        (["local.lr=fast"], "local.lr is 'fast'"),
        (["metrics=my.py:number"], "a metric must be a name or a function"),
        (["metrics=f1,f1"], "names a metric twice"),
    ],
)
def test_a_mistake_is_explained(words: list[str], message: str, file: Path):
    with pytest.raises(InputError, match=re.escape(message)):
        simulation(*words)
