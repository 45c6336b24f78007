from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from driftless import Diverged, Event, Federation, LocalTraining
from driftless.algorithms import FedAvg, Scaffold
from driftless.engine.batches import plan
from driftless.random import stream
from engine.own import Keeper, Poisoned, Probe, reached
from engine.problems import classification, linear, network, regression, run, vector

both_engines = pytest.mark.parametrize("engine", ["single", "block"])
SIZES = [3, 4, 5, 6]


def assert_close(one, other, atol: float = 1e-12) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def controls(result, clients: list[int]) -> torch.Tensor:
    return result.state.clients.get(clients, Scaffold().init_client(result.x)).c


@both_engines
@pytest.mark.parametrize("block_size", [1, 2, 3])
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_the_server_gets_the_means_worked_out_by_hand(engine: str, block_size: int, weighting: str):
    """Cohort of n = 2, 3, 7 out of five clients, batches of 2: K = 1, 2, 4.

    By examples: the mean of n is (4 + 9 + 49)/12, the mean of K is (2*1 + 3*2 + 7*4)/12 = 3.
    """
    federation = regression([2, 5, 3, 9, 7])
    local = LocalTraining(lr=0.1, epochs=1, batch_size=2, lr_decay=0.5)
    _, records = run(
        Probe(), federation, linear(), rounds=2, cohort=[[0, 2, 4]] * 2, local=local, engine=engine,
        block_size=block_size, weighting=weighting,
    )  # fmt: skip
    seen = records[1].server
    by_examples = weighting == "examples"
    assert float(seen.weighted) == pytest.approx(62 / 12 if by_examples else 4, rel=1e-14)
    assert float(seen.uniform) == pytest.approx(4, rel=1e-14)
    assert seen.vector.tolist() == pytest.approx([3 if by_examples else 7 / 3] * 4, rel=1e-14)
    assert float(seen.steps) == pytest.approx(7 / 3, rel=1e-14)
    assert float(seen.examples) == pytest.approx(4, rel=1e-14)
    assert (float(seen.cohort), float(seen.clients), float(seen.t), float(seen.lr)) == (3, 5, 2, 0.05)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "mime", "mfl"])
def test_blocks_of_every_size_agree(algorithm: str):
    federation, module = regression([3, 7, 4, 9, 5, 6, 2]), linear()
    local = LocalTraining(lr=0.1, epochs=1, batch_size=3)
    reference, _ = run(algorithm, federation, module, local=local, engine="single")
    for size in (1, 2, 3, 4, 7, 100):
        result, _ = run(algorithm, federation, module, local=local, block_size=size)
        assert (result.engine["kind"], result.engine["block_size"]) == ("block", size)
        torch.testing.assert_close(result.x, reference.x, rtol=0, atol=1e-12)


@both_engines
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["direction", "state"])
def test_a_client_without_a_finite_update_is_left_out_of_the_round(engine: str, value: float, place: str):
    """Everything is as if client 2 had not been in the cohort of round 2, the count M included."""
    federation, module = regression(SIZES), linear()
    bad = Poisoned(place=place, rounds=(2,), sizes=(5,), value=value)
    result, records = run(bad, federation, module, rounds=3, engine=engine)
    cohorts = [[0, 1, 2, 3], [0, 1, 3], [0, 1, 2, 3]]
    expected, without = run(Scaffold(), federation, module, rounds=3, cohort=cohorts, engine=engine)
    for one, other in zip(records, without, strict=True):
        assert_close(one.server, other.server)
        torch.testing.assert_close(one.aggregate, other.aggregate, rtol=0, atol=1e-12)
    assert_close([controls(result, [0, 1, 2, 3])], [controls(expected, [0, 1, 2, 3])])
    assert result.history["skipped"] == [0, 1, 0]
    assert result.history["cohort"] == [4, 4, 4]
    assert result.history["train_loss"][1] == pytest.approx(expected.history["train_loss"][1], rel=1e-12)
    (event,) = result.events
    assert (event.round, event.clients) == (2, (2,))
    assert "not finite" in event.what


@both_engines
def test_the_state_of_a_client_that_was_left_out_is_kept_to_the_bit(engine: str):
    federation, module = regression(SIZES), linear()
    bad = Poisoned(rounds=(2,), sizes=(5,))
    first, _ = run(bad, federation, module, rounds=1, engine=engine)
    second, _ = run(bad, federation, module, rounds=2, engine=engine, state=first.state)
    assert controls(first, [2]).any()
    assert torch.equal(controls(second, [2]), controls(first, [2]))
    assert not torch.equal(controls(second, [0]), controls(first, [0]))


@both_engines
def test_a_client_left_out_the_first_time_has_no_state(engine: str):
    result, _ = run(Poisoned(rounds=(1,), sizes=(5,)), regression(SIZES), linear(), rounds=1, engine=engine)
    assert sorted(result.state.clients.clients) == [0, 1, 3]


@both_engines
def test_a_client_whose_own_data_overflow_is_left_out_of_every_round(engine: str):
    huge = torch.full((4, 3), 1e200, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    plain = regression(SIZES)
    clients = [plain.client(i) for i in range(4)]
    federation = Federation.from_clients([*clients[:2], huge, *clients[2:]], test=clients[0])
    result, _ = run("fedavg", federation, linear(), rounds=3, engine=engine)
    expected, _ = run("fedavg", federation, linear(), rounds=3, engine=engine, cohort=[[0, 1, 3, 4]] * 3)
    torch.testing.assert_close(result.x, expected.x, rtol=0, atol=1e-12)
    assert [(e.round, e.clients) for e in result.events] == [(1, (2,)), (2, (2,)), (3, (2,))]


@both_engines
@pytest.mark.parametrize("place", ["direction", "server"])
def test_a_lost_round_keeps_the_server_and_every_client_as_they_were(engine: str, place: str):
    federation, module = regression(SIZES), linear()
    bad = Poisoned(place=place, rounds=(2,), value=math.inf)
    first, _ = run(bad, federation, module, rounds=1, engine=engine)
    second, (lost,) = run(bad, federation, module, rounds=2, engine=engine, state=first.state)
    assert all(torch.equal(a, b) for a, b in zip(first.state.server, lost.server, strict=True))
    assert torch.equal(lost.x, first.x)
    assert torch.equal(lost.aggregate, first.state.aggregate)
    assert torch.equal(controls(second, [0, 1, 2, 3]), controls(first, [0, 1, 2, 3]))
    assert second.history["skipped"] == [4 if place == "direction" else 0]
    assert "train_loss" not in second.history.columns
    assert [event for event in second.events if "round lost" in event.what] == [
        Event(2, "round lost: no finite result, server state kept as it was")
    ]
    third, (after,) = run(bad, federation, module, rounds=3, engine=engine, state=second.state)
    assert not torch.equal(after.x, lost.x)
    assert third.events == []


@both_engines
def test_rounds_lost_now_and_then_do_not_stop_a_run(engine: str):
    bad = Poisoned(rounds=(1, 2, 4, 5, 7))
    result, records = run(bad, regression(SIZES), linear(), rounds=7, engine=engine)
    assert len(records) == len(result.history) == 7
    assert [event.round for event in result.events if "round lost" in event.what] == [1, 2, 4, 5, 7]


@both_engines
@pytest.mark.parametrize("place", ["direction", "server"])
def test_three_lost_rounds_in_a_row_stop_the_run(engine: str, place: str):
    records = []
    with pytest.raises(Diverged) as error:
        run(
            Poisoned(place=place, rounds=(1, 4, 5, 6, 7)), regression(SIZES), linear(), rounds=9, engine=engine,
            on_round=records.append,
        )  # fmt: skip
    assert error.value.round == 4
    assert "diverged at round 4" in str(error.value)
    assert "rounds 4 to 6" in str(error.value)
    assert [record.round for record in records] == [1, 2, 3, 4, 5, 6]
    assert len(error.value.history) == 6
    assert [e.round for e in error.value.events if "round lost" in e.what] == [1, 4, 5, 6]


def test_lost_rounds_are_counted_across_an_interruption():
    federation, module, bad = regression(SIZES), linear(), Poisoned(rounds=(2, 3, 4))
    first, _ = run(bad, federation, module, rounds=3)
    with pytest.raises(Diverged, match="diverged at round 2"):
        run(bad, federation, module, rounds=6, state=first.state)


@both_engines
def test_local_steps_that_blow_up_are_named_as_the_likely_cause(engine: str):
    """With lr = 1e200 the third local step overflows; the server model itself never moved."""
    local = LocalTraining(lr=1e200, steps=5, batch_size=2)
    with pytest.raises(Diverged) as error:
        run("fedavg", regression(SIZES), linear(), rounds=9, local=local, engine=engine)
    for part in ("diverged at round 1", "Likely cause", "lr=1e+200", "smaller local.lr", "local.clip_norm"):
        assert part in str(error.value)


def test_clipping_is_not_recommended_to_who_clips_already():
    local = LocalTraining(lr=0.1, clip_norm=1.0, lr_decay=0.5, epochs=1, batch_size=None)
    with pytest.raises(Diverged) as error:
        run(Poisoned(rounds=(2, 3, 4)), regression(SIZES), linear(), rounds=9, local=local)
    assert "lr=0.05" in str(error.value)
    assert "clip_norm" not in str(error.value)


@both_engines
def test_a_server_that_runs_away_is_named_as_the_likely_cause(engine: str):
    """Each round multiplies the model by about 1e99; clients stay finite until the server's own step overflows."""
    with pytest.raises(Diverged) as error:
        run(FedAvg(server_lr=1e100), regression(SIZES), linear(), rounds=20, engine=engine)
    lost = [event for event in error.value.events if "round lost" in event.what]
    assert error.value.round == lost[0].round > 1
    for part in (
        f"diverged at round {error.value.round}",
        "Likely cause",
        "server model had grown",
        "smaller server_lr",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        ("fedavg", 1, 1),
        ("scaffold", 2, 2),
        ("scaffold-slim", 2, 1),
        ("feddyn", 1, 1),
        ("fedgbo", 2, 1),
        ("mimelite", 2, 2),
        ("mime", 3, 2),
        ("mfl", 2, 2),
        ("fedhbm", 1, 1),
        ("scaffold-momentum", 3, 2),
        ("ghbm-theory", 2, 2),
    ],
)
def test_bytes_are_counted_from_what_is_sent(algorithm: str, down: int, up: int):
    """In vectors of the model's size, 4 parameters of 8 bytes, to and from 3 clients."""
    result, _ = run(algorithm, regression([3, 4, 5]), linear(), rounds=1)
    assert result.history["bytes_down"] == [down * 3 * 4 * 8]
    assert result.history["bytes_up"] == [up * 3 * 4 * 8]


@both_engines
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_what_is_reported_of_the_clients_updates_is_worked_out_from_their_models(engine: str, weighting: str):
    """norm_update: of the mean update; drift: the root mean square distance of the updates from their mean; cosine: the
    mean over pairs of clients."""
    federation, module = regression(SIZES), linear()
    result, records = run(Keeper(0.3), federation, module, rounds=1, engine=engine, weighting=weighting, block_size=3)
    updates = torch.stack([reached(result, i) - vector(module) for i in range(4)])
    weights = torch.tensor(SIZES if weighting == "examples" else [1] * 4, dtype=torch.float64)
    weights = weights / weights.sum()
    mean = weights @ updates
    spread = (weights * (updates - mean).square().sum(1)).sum().sqrt()
    cosines = [torch.cosine_similarity(updates[i], updates[j], dim=0) for i in range(4) for j in range(i)]
    metrics = records[0].metrics
    assert metrics["norm_update"] == pytest.approx(float(mean.norm()), rel=1e-12)
    assert metrics["drift"] == pytest.approx(float(spread), rel=1e-10)
    assert metrics["cosine"] == pytest.approx(float(sum(cosines) / 6), rel=1e-12)
    assert metrics["norm_x"] == pytest.approx(float(records[0].x.norm()), rel=1e-12)


@both_engines
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clients_that_move_alike_have_no_drift(engine: str, dtype: torch.dtype):
    """One client alone, then three with the same data: what rounding leaves over is not drift."""
    federation, options = (
        regression(SIZES),
        {"local": LocalTraining(lr=0.1, steps=3, batch_size=None), "dtype": dtype, "engine": engine},
    )
    alone, _ = run("fedavg", federation, linear(), rounds=10, cohort=1, **options)
    triplets = Federation.from_clients([federation.client(0)] * 3)
    alike, _ = run("fedavg", triplets, linear(), rounds=10, **options)
    for result in (alone, alike):
        assert min(result.history["norm_update"]) > 1e-3
        assert result.history["drift"] == [0.0] * 10


def test_clients_that_do_not_move_have_no_direction():
    """Two of four clients fit their data already: the cosine is that of the other two."""
    federation, module = regression(SIZES), linear()
    clients = [federation.client(i) for i in range(4)]
    still = [(inputs, module(inputs).detach()) for inputs, _ in clients[2:]]
    result, records = run(Keeper(), Federation.from_clients([*clients[:2], *still]), module, rounds=1)
    updates = [reached(result, i) - vector(module) for i in range(4)]
    assert not updates[2].any()
    expected = torch.cosine_similarity(updates[0], updates[1], dim=0)
    assert records[0].metrics["cosine"] == pytest.approx(float(expected), rel=1e-12)
    _, one = run(Keeper(), federation, module, rounds=1, cohort=1)
    assert "cosine" not in one[0].metrics


@both_engines
@pytest.mark.parametrize("last_batch", ["short", "bootstrap"])
def test_the_training_accuracy_is_the_share_of_hits_at_the_models_of_the_steps(engine: str, last_batch: str):
    """With a learning rate that moves nothing it is the accuracy of x^0 on the examples of the batches."""
    federation, module = classification([4, 7, 6, 9]), network()
    local = LocalTraining(lr=1e-12, epochs=3, batch_size=4, last_batch=last_batch)
    for weighting, weights in (("examples", [4, 7, 6, 9]), ("uniform", [1, 1, 1, 1])):
        result, _ = run("fedavg", federation, module, rounds=1, local=local, engine=engine, weighting=weighting)
        shares = []
        for i in range(4):
            inputs, labels = federation.client(i)
            planned = plan(local, len(labels), stream(0, "batches", 1, i))
            rows = np.concatenate([row[:n] for row, n in zip(planned.index, planned.count, strict=True)])
            shares.append(float((module(inputs).argmax(1) == labels)[rows].double().mean()))
        expected = sum(w * s for w, s in zip(weights, shares, strict=True)) / sum(weights)
        assert result.history["train_accuracy"] == [pytest.approx(expected, rel=1e-12)]
    assert 0 < expected < 1
    assert "train_accuracy" not in run("fedavg", regression([3, 4]), linear())[0].history.columns


def test_the_examples_of_a_round_are_those_of_all_minibatches():
    """Clients of 3 and 8 examples, two epochs in batches of 5: 2 * 3 + 2 * 8; bootstrapped 2 * 5 + 4 * 5."""
    for last_batch, expected in (("short", 22), ("bootstrap", 30)):
        local = LocalTraining(lr=0.1, epochs=2, batch_size=5, last_batch=last_batch)
        result, _ = run("fedavg", regression([3, 8]), linear(), rounds=1, local=local)
        assert result.history["examples"] == [expected]
