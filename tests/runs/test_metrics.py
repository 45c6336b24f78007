"""The numbers of a round, each computed a second time, by its definition, from what the clients really did."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import vector_to_parameters

from driftless import Federation, LocalTraining, models
from driftless.algorithms import AdaBest, FedAvg
from driftless.config.build import simulation_of
from driftless.data.cohorts import Explicit
from driftless.engine import batches
from driftless.engine.history import Record
from driftless.engine.minibatches import plans_of
from driftless.engine.settings import EngineSettings
from driftless.engine.simulation import Simulation, has_halved, play
from driftless.engine.state import State
from driftless.simulate import prepare
from runs.runs import DIVERGING, Records, small, start

UNEQUAL = ["data.partition=dirichlet", "data.alpha=0.5", "data.sizes=lognormal", "precision=float64", "lr=0.3"]
"""Clients of different sizes and labels, so that weights and pairs matter."""
P = 650


def next_round(simulation: Simulation, state: State) -> Record:
    with closing(play(simulation, state)) as records:
        return next(records)


def updates(simulation: Simulation, state: State, clients: np.ndarray) -> Tensor:
    """What each client's model moves by in the round after `state`: each trains alone, as the only one of a cohort."""
    t = state.round + 1
    deltas = []
    for client in clients.tolist():
        alone = replace(simulation, cohort=Explicit([[0]] * (t - 1) + [[client]]))
        deltas.append(next_round(alone, state.copy()).aggregate - state.server.x)
    return torch.stack(deltas)


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("block_size", [5, 2])
def test_cosine_drift_and_update_are_those_of_the_clients_updates(weighting: str, block_size: int):
    simulation = simulation_of(small(*UNEQUAL, f"weighting={weighting}", f"block_size={block_size}").config)
    state = simulation.init()
    for t in (1, 2, 3):
        clients = simulation.cohort.clients(t, 20, 0)
        deltas = updates(simulation, state, clients)
        weights = torch.from_numpy(simulation.federation.sizes[clients]).double()
        weights = weights if weighting == "examples" else torch.ones_like(weights)
        weights = weights / weights.sum()
        record = next_round(simulation, state)
        state = record.state
        cosines = [
            float(F.cosine_similarity(deltas[i], deltas[j], dim=0)) for i, j in permutations(range(len(clients)), 2)
        ]
        mean = weights @ deltas
        drift = sum(w * (delta - mean).square().sum() for w, delta in zip(weights, deltas, strict=True)) ** 0.5
        assert len(cosines) == 20
        assert record.metrics["cosine"] == pytest.approx(np.mean(cosines), abs=1e-12)
        assert record.metrics["norm_update"] == pytest.approx(float(mean.norm()), rel=1e-12)
        assert record.metrics["drift"] == pytest.approx(float(drift), rel=1e-9)


def test_a_single_client_has_no_cosine_and_no_drift(tmp_path):
    for row in start(tmp_path / "run", "cohort=1", "rounds=3").rows:
        assert "cosine" not in row
        assert row["drift"] == 0


def test_updates_so_long_that_their_squares_overflow_get_no_wrong_numbers(tmp_path):
    """Weight decay alone drives all clients the same way, further each round: their cosine is 1 to the end."""
    stored = start(tmp_path / "run", *DIVERGING)
    rows = [row for row in stored.rows if "train_loss" in row]
    assert max(row["norm_x"] for row in rows) > 1e30
    for row in rows:
        assert row.get("cosine", 1.0) == pytest.approx(1.0, abs=1e-4)
    assert "norm inf" not in (stored.result or {})["reason"]


def test_clients_that_do_not_move_have_no_direction():
    """Two clients at their optimum, one that moves: no pair has a cosine."""
    still = (torch.ones(2, 1), torch.zeros(2))
    moving = (torch.ones(2, 1), torch.ones(2))
    federation = Federation.from_clients([still, still, moving])
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Flatten(0))
    torch.nn.init.zeros_(module[0].weight)
    simulation = prepared(federation, module, cohort=3)
    metrics = next_round(simulation, simulation.init()).metrics
    assert "cosine" not in metrics
    assert metrics["norm_update"] == pytest.approx(0.1 / 3)


def prepared(federation: Federation, module: Any, cohort: Any, algorithm: Any = None) -> Simulation:
    return prepare(
        algorithm or FedAvg(), federation, module, rounds=10, cohort=cohort,
        local=LocalTraining(epochs=1, batch_size=None), loss=None, weighting=None, seed=0,
        engine=EngineSettings("single"), dtype=torch.float64, evaluate_every=1, server=None, inference=None,
    )  # fmt: skip


@pytest.mark.parametrize("training", [["steps=3"], ["batch_size=7", "epochs=2"], ["batch_size=7", "steps=3"]])
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_train_loss_and_accuracy_are_the_cohorts_means_over_local_steps_and_examples(weighting, training):
    simulation = simulation_of(exactly(*UNEQUAL, *training, f"weighting={weighting}"))
    losses, accuracies, weights = [], [], []
    clients = simulation.cohort.clients(1, 20, 0)
    for client in clients.tolist():
        inputs, targets = simulation.federation.to(torch.float64).client(client)
        module = models.build("logistic", simulation.federation.input_shape, 10, seed=0).double()
        steps, hits = [], []
        (order,) = plans_of(simulation.workload, [client], 1)
        for index, count in zip(order.index, order.count, strict=True):
            batch, labels = inputs[index[:count]], targets[index[:count]]
            outputs = module(batch)
            loss = F.cross_entropy(outputs, labels)
            module.zero_grad()
            loss.backward()
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter -= 0.3 * parameter.grad
            steps.append(loss.item())
            hits += (outputs.argmax(1) == labels).tolist()
        losses.append(np.mean(steps))
        accuracies.append(np.mean(hits))
        weights.append(len(inputs) if weighting == "examples" else 1)
    metrics = next_round(simulation, simulation.init()).metrics
    assert metrics["train_loss"] == pytest.approx(np.average(losses, weights=weights), rel=1e-10)
    assert metrics["train_accuracy"] == pytest.approx(np.average(accuracies, weights=weights), rel=1e-10)


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        ("fedavg", {"x"}),
        ("scaffold", {"x", "c"}),
        ("adabest", {"x", "h"}),
        ("feddyn", {"x", "h"}),
        ("fedavgm", {"x", "m"}),
        ("fedgbo", {"x", "m"}),
    ],
)
def test_the_norms_are_those_of_the_servers_vectors(tmp_path: Path, algorithm: str, names: set[str]):
    heard = Records()
    changes = [f"algorithm={algorithm}"]
    for row, record in zip(start(tmp_path / "run", *changes, callbacks=[heard]).rows, heard.records, strict=True):
        shown = {name.removeprefix("norm_") for name in row if name.startswith("norm_")} - {"update"}
        assert shown == names
        for name in names & set(type(record.server)._fields):
            vector = getattr(record.server, name).double()
            assert row[f"norm_{name}"] == pytest.approx(float(vector.square().sum().sqrt()), rel=1e-6)


def test_the_norms_of_a_clipped_algorithm_are_those_of_the_inner_one(tmp_path):
    rows = start(tmp_path / "run", "algorithm=scaffold", "clipping=adaptive").rows
    assert all({"norm_x", "norm_c"} <= row.keys() for row in rows)


def test_clip_level_and_share_clipped_follow_the_norms_of_the_updates():
    changes = [*UNEQUAL, "clipping=adaptive", "clipping_initial=0.2", "clipping_quantile=0.6", "clipping_lr=0.5"]
    clipped, free = simulation_of(small(*changes).config), simulation_of(small(*UNEQUAL).config)
    state, rho = clipped.init(), 0.2
    shares = []
    for t in range(1, 7):
        clients = clipped.cohort.clients(t, 20, 0)
        here = replace(free.init(), round=t - 1, server=free.init().server._replace(x=state.server.x))
        norms = updates(free, here, clients).norm(dim=1)
        shares.append(float((norms > rho).double().mean()))
        rho *= np.exp(-0.5 * ((1 - shares[-1]) - 0.6))
        record = next_round(clipped, state)
        state = record.state
        assert record.metrics["clipped"] == pytest.approx(shares[-1])
        assert record.metrics["clip_level"] == pytest.approx(rho, rel=1e-9)
    assert len(set(shares)) > 1


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        ("fedavg", P, P),
        ("scaffold", 2 * P, 2 * P),
        ("mime", 3 * P, 2 * P),
        ("fedgbo", 2 * P, P),
        ("adabest", P + 1, P + 1),
    ],
)
@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("float64", 8)])
def test_the_bytes_are_those_of_all_vectors_sent_to_and_from_the_cohort(tmp_path, algorithm, down, up, precision, size):
    for row in start(tmp_path / "run", f"algorithm={algorithm}", f"precision={precision}", "rounds=2").rows:
        assert (row["bytes_down"], row["bytes_up"]) == (5 * size * down, 5 * size * up)


@pytest.mark.parametrize("engine", ["block", "single"])
@pytest.mark.parametrize("last_batch", ["short", "bootstrap", "drop"])
@pytest.mark.parametrize(
    "training",
    [
        ["epochs=2", "batch_size=7"],
        ["steps=5", "batch_size=20"],
        ["steps=9", "batch_size=7"],
        ["steps=2"],
        ["batch_size=500", "epochs=2"],
    ],
)
def test_the_examples_are_those_of_the_batches_really_made(tmp_path, monkeypatch, engine, last_batch, training):
    if last_batch == "drop" and "batch_size=500" in training:
        training = ["epochs=3", "batch_size=31"]
    words = ["data.partition=dirichlet", "data.alpha=0.5", "data.sizes=lognormal", "data.sigma=0.2", "rounds=2"]
    made: list[int] = []
    original = batches.plan

    def recorded(*arguments: Any) -> Any:
        plan = original(*arguments)
        made.append(int(plan.count.sum()))
        return plan

    monkeypatch.setattr(batches, "plan", recorded)
    simulation = simulation_of(exactly(*words, *training, f"last_batch={last_batch}", f"engine={engine}"))
    state = simulation.init()
    for _ in range(2):
        made.clear()
        record = next_round(simulation, state)
        state = record.state
        assert len(made) == 5
        assert record.metrics["examples"] == sum(made)


def exactly(*words: str) -> Any:
    """The small run, with this local training and no other."""
    config = small(*(word for word in words if word.partition("=")[0] not in ("epochs", "steps", "batch_size"))).config
    given = {key: int(value) for key, _, value in (word.partition("=") for word in words) if key in TRAINING}
    local = config.local.model_copy(update=dict.fromkeys(TRAINING) | given)
    return config.model_copy(update={"local": local})


TRAINING = ("epochs", "steps", "batch_size")


# Failures, evaluation, fairness


@pytest.mark.parametrize(
    ("before", "now", "failed"),
    [(0.8, 0.4, True), (0.8, 0.41, False), (0.8, 0.9, False), (None, 0.0, False), (0.0, 0.0, False)],
)
def test_a_catastrophic_failure_is_a_training_accuracy_that_falls_to_half(before, now, failed):
    assert has_halved(before, now) is failed


def test_failures_are_marked_in_the_rows(tmp_path):
    """One client a round, each with a single digit: the model of the last one knows nothing of the next."""
    changes = ["data.partition=shards", "shards_per_client=1", "cohort=1", "rounds=12", "lr=20", "batch_size=none"]
    rows = start(tmp_path / "run", *changes).rows
    assert rows[0]["failure"] == 0
    accuracies = [row["train_accuracy"] for row in rows]
    expected = [int(now <= before / 2 and before > 0) for before, now in pairwise(accuracies)]
    assert [row["failure"] for row in rows[1:]] == expected
    assert set(expected) == {0, 1}


def predictions(x: Tensor, inputs: Tensor) -> Tensor:
    module = models.build("logistic", (64,) if inputs.dim() == 2 else tuple(inputs.shape[1:]), 10).to(x.dtype)
    vector_to_parameters(x, module.parameters())
    with torch.no_grad():
        return module(inputs)


@pytest.mark.parametrize("algorithm", ["fedavg", "adabest"])
def test_the_test_numbers_are_those_of_the_inference_model_on_the_test_set(tmp_path: Path, algorithm: str):
    heard = Records()
    stored = start(tmp_path / "run", f"algorithm={algorithm}", callbacks=[heard])
    inputs, targets = simulation_of(stored.config).federation.test or pytest.fail("digits have a test set")
    for row, record in zip(stored.rows, heard.records, strict=True):
        outputs = predictions(record.server.x_bar if algorithm == "adabest" else record.x, inputs)
        assert row["test_accuracy"] == pytest.approx(float((outputs.argmax(1) == targets).double().mean()))
        assert row["test_loss"] == pytest.approx(float(F.cross_entropy(outputs, targets)), rel=1e-5)


def test_percentiles_and_validation_are_over_the_clients_that_are_held_out(tmp_path):
    heard = Records()
    changes = ["validation=6", *UNEQUAL[:3], "evaluate_every=2"]
    stored = start(tmp_path / "run", *changes, callbacks=[heard])
    held_out = simulation_of(stored.config).federation.validation
    assert held_out is not None
    assert held_out.clients == 6
    for row, record in zip(stored.rows, heard.records, strict=True):
        if row["round"] % 2:
            assert not [name for name in row if name.startswith(("test_", "validation_"))]
            continue
        right = [
            float((predictions(record.x, inputs).argmax(1) == targets).double().mean())
            for inputs, targets in (held_out.client(i) for i in range(6))
        ]
        for percent in (5, 25, 50, 75, 95):
            assert row[f"test_p{percent}"] == pytest.approx(np.percentile(right, percent), abs=1e-12)
        assert row["validation_accuracy"] == pytest.approx(np.average(right, weights=held_out.sizes))


def test_percentiles_are_over_the_clients_own_test_data_where_there_are_some():
    generator = torch.Generator().manual_seed(0)
    pairs = [
        (torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)) for n in range(2, 12)
    ]
    own_test = [*pairs[5:9], None]
    federation = Federation.from_clients(pairs[:5], test=pairs[9], classes=3, client_test=own_test)
    simulation = prepared(federation, "logistic", cohort=2, algorithm=AdaBest())
    record = next_round(simulation, simulation.init())
    row = record.metrics
    module = models.build("logistic", (4,), 3).double()
    vector_to_parameters(record.server.x_bar, module.parameters())
    right = [float((module(i.double()).argmax(1) == t).double().mean()) for i, t in pairs[5:9]]
    assert [row[f"test_p{p}"] for p in (5, 25, 50, 75, 95)] == pytest.approx(np.percentile(right, (5, 25, 50, 75, 95)))
    assert not [name for name in row if name.startswith("validation_")]


def test_a_regression_has_losses_and_no_accuracies(tmp_path):
    rows = start(tmp_path / "run", "data=linear-regression", "model=linear", "data.clients=10", "validation=2").rows
    assert all({"train_loss", "validation_loss"} <= row.keys() for row in rows)
    assert not [name for row in rows for name in row if "accuracy" in name or name in ("failure", "test_p50")]
