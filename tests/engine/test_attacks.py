"""What attackers send, in both engines: against uploads changed by hand and federations with wrong labels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from driftless import ALGORITHMS, AdaptiveClipping, EvaluationSettings, Faults, Federation, LocalTraining
from driftless.algorithms import Scaffold
from driftless.engine.attacks import Attack, attacked, attackers_among, wrong_labels
from driftless.engine.local import Trained
from driftless.engine.tree import named_leaves
from engine.own import Keeper, Probe, reached
from engine.problems import classification, linear, network, regression, run
from engine.test_cluster import assert_same

SIZES = [6, 4, 5, 7, 3, 8, 6, 5]
LOCAL = LocalTraining(lr=0.1, epochs=1, batch_size=3)
ENGINES = ("single", "block")
FACTORS = {"nan": math.nan, "scale": 10.0, "sign-flip": -1.0}


def attackers(faults: Faults, seed: int = 0) -> list[int]:
    return np.flatnonzero(attackers_among(faults, len(SIZES), seed)).tolist()


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.1, 0.29, 0.5, 1.0, 1])
def test_the_fraction_of_attackers_is_exact_and_a_larger_one_has_the_same_clients_and_more(fraction: float):
    found = attackers_among(Faults(attack="nan", attackers=fraction), 100, 5)
    assert found.sum() == round(100 * fraction)
    more = attackers_among(Faults(attack="scale", attackers=min(1.0, fraction + 0.1)), 100, 5)
    assert more[found].all()


def test_attackers_depend_on_the_seed_and_there_is_at_least_one():
    faults = Faults(attack="nan", attackers=0.3)
    assert len({tuple(attackers(faults, seed)) for seed in range(20)}) > 5
    assert attackers_among(Faults(attack="nan", attackers=1e-6), 10, 0).sum() == 1
    assert attackers_among(Faults(), 10, 0).sum() == 0


class Sent(NamedTuple):
    delta: Tensor
    parts: tuple[Tensor, ...]
    count: Tensor
    whole: Tensor


def test_every_vector_that_is_sent_is_attacked_and_nothing_else():
    rows, x = torch.arange(12.0).view(3, 4) + 1, torch.ones(4)
    upload = Sent(rows, (rows.view(3, 2, 2) + 1,), torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, 2, dtype=torch.long))
    given = Trained(x + rows, upload, (rows,), torch.zeros(3), torch.zeros(3))
    mask = np.zeros(9, dtype=bool)
    mask[[2, 5]] = True
    found = attacked(Attack(mask, -3.0), np.array([5, 7, 2]), x, given)
    factors = torch.tensor([-3.0, 1.0, -3.0])
    assert torch.equal(found.upload.delta, rows * factors[:, None])
    assert torch.equal(found.upload.parts[0], (rows.view(3, 2, 2) + 1) * factors[:, None, None])
    assert found.upload.count is upload.count
    assert found.upload.whole is upload.whole
    assert found.client is given.client
    assert torch.equal(found.y, x + rows * factors[:, None])
    assert attacked(Attack(mask, -3.0), np.array([1, 7]), x, given) is given
    assert attacked(None, np.array([5]), x, given) is given


@pytest.mark.parametrize(
    ("name", "engine"), [*((name, "single") for name in sorted(ALGORITHMS)), ("scaffold", "block"), ("mime", "block")]
)
def test_the_server_gets_an_attackers_upload_multiplied_in_all_fields(name: str, engine: str):
    """Of a round of one client, in which the mean is that client's upload."""
    faults = Faults(attack="scale", attackers=1 / len(SIZES), attack_scale=4.0)
    (attacker,) = attackers(faults)
    seen: list[tuple[dict[str, Tensor], Any]] = []

    class Watched(ALGORITHMS[name]):
        def update(self, server: Any, mean: Any, r: Any) -> Any:
            seen.append((dict(named_leaves(mean)), r.cohort_gradient))
            return super().update(server, mean, r)

    algorithm = Watched()
    local = LocalTraining(**{"lr": 0.1, "steps": 1, "batch_size": 3} | dict(algorithm.local_must_be))  # pyright: ignore
    options: dict[str, Any] = {"rounds": 1, "cohort": [[attacker]], "local": local, "engine": engine}
    honest, _ = run(algorithm, regression(SIZES), linear(), **options)
    evil, _ = run(algorithm, regression(SIZES), linear(), **options, faults=faults)
    (plain, gradient), (changed, changed_gradient) = seen
    assert plain.keys() == changed.keys()
    if gradient is None:
        for field, value in plain.items():
            factor = 4.0 if value.dim() else 1.0
            assert torch.allclose(changed[field], factor * value, rtol=1e-12, atol=0), field
        kept, of_honest = evil.state.clients, honest.state.clients
        assert kept.clients == of_honest.clients
        pairs = zip(kept.rows(kept.clients), of_honest.rows(kept.clients), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    else:
        assert torch.allclose(changed_gradient, 4.0 * gradient, rtol=1e-12, atol=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", FACTORS)
def test_an_attacked_round_is_the_mean_of_what_was_sent(kind: str, engine: str):
    faults = Faults(attack=kind, attackers=0.25)
    federation, evil = regression(SIZES), attackers(faults)
    options: dict[str, Any] = {"rounds": 1, "local": LOCAL, "engine": engine, "weighting": "uniform"}
    honest, _ = run(Keeper(), federation, linear(), **options)
    result, records = run(Keeper(), federation, linear(), **options, faults=faults)
    x = torch.cat([p.detach().flatten() for p in linear().parameters()])
    sent = [(reached(honest, i) - x) * (FACTORS[kind] if i in evil else 1) for i in range(len(SIZES))]
    finite = [delta for delta in sent if delta.isfinite().all()]
    assert len(finite) == len(SIZES) - (2 if kind == "nan" else 0)
    assert torch.allclose(result.x, x + torch.stack(finite).mean(0), rtol=1e-12)
    assert result.history["attackers"] == [2]
    if kind == "nan":
        assert records[0].events[0].clients == tuple(evil)
        assert "not finite" in records[0].events[0].what
        assert result.history["skipped"] == [2]
    else:
        assert result.events == []
        assert all(torch.equal(reached(result, i), reached(honest, i)) for i in range(len(SIZES)))


def test_the_models_of_all_clients_are_those_that_the_server_was_sent():
    faults = Faults(attack="sign-flip", attackers=0.25)
    options: dict[str, Any] = {"rounds": 1, "local": LOCAL, "weighting": "uniform", "inference": "clients"}
    result, _ = run("fedavg", regression(SIZES), linear(), **options, faults=faults)
    assert torch.allclose(result.inference, result.x, rtol=1e-12)


def flipped(federation: Federation, clients: list[int]) -> Federation:
    """A federation in which these clients have wrong labels."""
    classes = federation.classes
    assert classes is not None
    own = [federation.client(i) for i in range(federation.clients)]
    wrong = [(x, classes - 1 - y if i in clients else y) for i, (x, y) in enumerate(own)]
    return Federation.from_clients(wrong, test=federation.test, classes=classes)


@pytest.mark.parametrize(
    ("algorithm", "engine"),
    [("scaffold", "single"), ("mime", "single"), ("mime", "block"), (AdaptiveClipping(Scaffold()), "block")],
)
def test_label_flip_equals_training_on_a_federation_with_wrong_labels(algorithm: Any, engine: str):
    faults = Faults(attack="label-flip", attackers=0.4)
    federation = classification(SIZES)
    options: dict[str, Any] = {"rounds": 3, "cohort": 5, "local": LOCAL, "engine": engine, "block_size": 3}
    result, _ = run(algorithm, federation, network(dropout=0.2), **options, faults=faults)
    expected, _ = run(algorithm, flipped(federation, attackers(faults)), network(dropout=0.2), **options)
    assert sum(row.pop("attackers") for row in result.history) > 0
    assert_same(result, expected)


def test_label_flip_changes_the_run():
    options: dict[str, Any] = {"rounds": 1, "local": LOCAL, "engine": "single"}
    faults = Faults(attack="label-flip", attackers=0.4)
    one, _ = run("fedavg", classification(SIZES), network(), **options)
    other, _ = run("fedavg", classification(SIZES), network(), **options, faults=faults)
    assert not torch.equal(one.x, other.x)


def test_labels_of_sequences_are_flipped_one_by_one():
    labels = torch.tensor([[0, 1, 2], [3, 3, 0]])
    assert wrong_labels(labels, 4).tolist() == [[3, 2, 1], [0, 0, 3]]
    assert wrong_labels(wrong_labels(labels, 4), 4).tolist() == labels.tolist()
    assert wrong_labels(labels.to(torch.uint8), 4).dtype == torch.uint8


def test_single_numbers_of_an_upload_stay_honest():
    faults = Faults(attack="scale", attackers=0.5, attack_scale=100.0)
    honest, _ = run(Probe(), regression(SIZES), linear(), local=LOCAL, rounds=1)
    result, _ = run(Probe(), regression(SIZES), linear(), local=LOCAL, rounds=1, faults=faults)
    assert torch.equal(result.state.server.uniform, honest.state.server.uniform)
    assert torch.equal(result.state.server.weighted, honest.state.server.weighted)
    assert not torch.equal(result.state.server.vector, honest.state.server.vector)


def test_replayed_steps_and_steps_as_written_are_attacked_alike():
    faults = Faults(attack="label-flip", attackers=0.4)
    options: dict[str, Any] = {"rounds": 4, "cohort": 5, "local": LOCAL, "faults": faults}
    results = [run("scaffold", classification(SIZES), network(), **options, replay=on)[0] for on in (True, False)]
    assert_same(*results)


def test_a_run_whose_cohorts_are_only_attackers_with_nan_goes_on():
    faults = Faults(attack="nan", attackers=1.0)
    result, _ = run("scaffold", regression(SIZES), linear(), rounds=5, cohort=3, faults=faults)
    assert len(result.history) == 5
    assert result.state.lost == 0
    assert result.history["skipped"] == [3] * 5
    assert len(result.state.clients) == 0


def test_personal_models_are_of_honest_local_steps():
    """An attacker is judged by what its own data give, not by what it sends."""
    federation = classification(SIZES)
    own = [federation.client(i) for i in range(len(SIZES))]
    federation = Federation.from_clients(own, client_test=own, classes=3)
    options: dict[str, Any] = {"rounds": 1, "evaluation": EvaluationSettings(finetune_steps=2), "local": LOCAL}
    faults = Faults(attack="label-flip", attackers=0.5)
    tiny = LocalTraining(lr=1e-300, epochs=1, batch_size=3)
    honest, _ = run("fedavg", federation, network(), **options | {"local": tiny})
    result, _ = run("fedavg", federation, network(), **options | {"local": tiny}, faults=faults)
    assert result.client_metrics == honest.client_metrics
