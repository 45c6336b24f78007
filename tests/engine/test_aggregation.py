"""Robust aggregation in a run: every algorithm, all fields of an upload, any number of processes, too few clients."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftless import ALGORITHMS, AdaptiveClipping, Aggregation, Algorithm, Diverged, LocalTraining, Result, simulate
from driftless import run as run_on_disk
from driftless.algorithms import AdaBest, FedAvg, Mime, Scaffold
from driftless.config.build import simulation_of
from driftless.config.describe import describe
from driftless.config.resolution import resolve
from driftless.engine import memory_needed
from driftless.engine.aggregation import RULES, as_aggregation, number_of
from driftless.engine.round import GradientSum, RoundPlan, mean_gradient
from driftless.engine.sums import UploadRows
from driftless.engine.tree import stack
from driftless.errors import InputError
from engine.own import Poisoned, Probe
from engine.problems import linear, regression, run, vector
from laws.entries import Setting, play, trace
from laws.trees import assert_close, assert_same_bits

SIZES = [3, 7, 4, 9, 5, 6, 2, 8]
UNEQUAL = Setting(cohort=5, rounds=2, engine="single")
AS_THE_MEAN = {
    "trim 0": Aggregation("trimmed-mean", trim=0),
    "huge bound": Aggregation("norm-bound", bound=1e12),
}
ROBUST = [rule for rule in RULES if rule != "mean"]


# --- with no attacker


@pytest.mark.parametrize("aggregation", AS_THE_MEAN.values(), ids=AS_THE_MEAN)
@pytest.mark.parametrize("name", [*ALGORITHMS, "clipping of scaffold", "clipping of mime"], scope="module")
def test_what_leaves_nothing_out_is_the_mean_for_every_algorithm(name: str, aggregation: Aggregation):
    expected, found = trace(name, UNEQUAL), play(name, UNEQUAL, aggregation=aggregation)
    for one, other in zip(found.records, expected.records, strict=True):
        assert_close(one.server, other.server, 1e-10)
        measured = {key: value for key, value in other.metrics.items() if not key.endswith("seconds")}
        assert {key: one.metrics[key] for key in measured} == pytest.approx(measured, rel=1e-9, abs=1e-10)


def test_the_mean_by_its_name_has_the_same_bits_as_no_aggregation():
    for name in ("scaffold", "mime"):
        found, expected = play(name, UNEQUAL, aggregation="mean").result, trace(name, UNEQUAL).result
        assert_same_bits(found.state.server, expected.state.server)


# --- everything that is uploaded


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("block_size", [1, 3, 10])
def test_every_field_goes_through_the_median(weighting: str, block_size: int):
    """n = 2, 3, 7, 9, 5 with batches of 2: K = 1, 2, 4, 5, 3."""
    local = LocalTraining(lr=0.1, epochs=1, batch_size=2)
    _, records = run(
        Probe(), regression([2, 3, 7, 9, 5]), linear(), local=local, weighting=weighting, block_size=block_size,
        aggregation="median",
    )  # fmt: skip
    seen = records[1].server
    assert (float(seen.weighted), float(seen.uniform), seen.vector.tolist()) == (5, 5, [3] * 4)
    assert (float(seen.steps), float(seen.examples)) == (3, 5.2), "facts of the round stay means"


def told(algorithm: Algorithm, cohort: list[int], **options: Any) -> tuple[Any, Any]:
    """What the server gets of the first round of these clients, and the cohort's gradient."""
    seen: list[tuple[Any, Any]] = []

    class Watched(type(algorithm)):
        def update(self, server, mean, r):
            seen.append((mean, r.cohort_gradient))
            return super().update(server, mean, r)

    local = LocalTraining(lr=0.1, epochs=1, batch_size=3)
    watched = Watched(**{each.name: getattr(algorithm, each.name) for each in fields(algorithm)})  # pyright: ignore
    run(watched, regression(SIZES), linear(), rounds=1, cohort=[cohort], local=local, **options)
    return seen[-1]


@functools.cache
def uploads_alone(algorithm: Algorithm) -> Any:
    """Of each client when it is alone in the first round, stacked."""
    return stack([told(algorithm, [i], engine="single")[0] for i in range(len(SIZES))])


@pytest.mark.parametrize("rule", ROBUST)
@pytest.mark.parametrize(
    "algorithm",
    [Scaffold(), AdaBest(), AdaptiveClipping(Scaffold(), initial=0.3)],
    ids=["scaffold", "adabest", "clipping"],
)
def test_the_server_gets_the_rule_applied_to_what_each_client_uploads_alone(algorithm: Algorithm, rule: str):
    aggregation, weights = Aggregation(rule, trim=1, attackers=1, keep=3), torch.tensor(SIZES, dtype=torch.float64)
    uploads = uploads_alone(algorithm)
    found, _ = told(algorithm, list(range(len(SIZES))), weighting="examples", aggregation=aggregation, block_size=3)
    expected = aggregation.of(UploadRows(uploads, weights), algorithm.uniform).mean
    assert_close(found, expected, 1e-12)
    assert (found.delta - Aggregation().of(UploadRows(uploads, weights), algorithm.uniform).mean.delta).norm() > 1e-3


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("engine", ["single", "block"])
def test_the_gradient_of_mime_goes_through_the_rule(engine: str, workers: int):
    federation, module = regression(SIZES), linear()
    gradients = []
    for inputs, targets in (federation.client(i) for i in range(len(SIZES))):
        module.zero_grad()
        (0.5 * (module(inputs) - targets).square().mean()).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in module.parameters()]).numpy())
    every = list(range(len(SIZES)))
    options: dict[str, Any] = {"engine": engine, "block_size": 3, "workers": workers, "threads": 1}
    _, found = told(Mime(), every, aggregation="median", **options)
    np.testing.assert_allclose(found.numpy(), np.median(np.stack(gradients), axis=0), rtol=0, atol=1e-12)


# --- the same bits


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "client state": ("scaffold", {}),
    "full gradients before the steps": ("mime", {}),
    "clipping": (AdaptiveClipping(Scaffold(), initial=0.05), {}),
    "a client that is left out": (Poisoned(rounds=(2,), sizes=(5,)), {"cohort": 8}),
    "a block that is left out": (Poisoned(rounds=(2,), sizes=(2, 3)), {"cohort": 8}),
    "one client after the other": ("adabest", {"engine": "single"}),
}


def of_processes(case: str, aggregation: Aggregation, workers: int, **more: Any) -> Result:
    algorithm, options = CASES[case]
    settings: dict[str, Any] = {"rounds": 3, "cohort": 6, "local": LocalTraining(lr=0.1, epochs=1, batch_size=3)}
    settings |= {"block_size": 2, "threads": 1, "workers": workers, "aggregation": aggregation, **options, **more}
    return run(algorithm, regression(SIZES), linear(), **settings)[0]


@pytest.mark.parametrize(("case", "rule"), [*zip(CASES, ROBUST, strict=True)])
def test_the_number_of_processes_does_not_change_a_bit(case: str, rule: str):
    one, two = (of_processes(case, Aggregation(rule), workers) for workers in (1, 2))
    assert_same_bits(one.state.server, two.state.server)
    assert one.events == two.events
    for name in ("train_loss", "drift", "cosine", "norm_update"):
        assert one.history[name] == two.history[name]


@pytest.mark.parametrize("rule", ROBUST)
def test_the_engines_agree(rule: str):
    one, two = (of_processes("client state", Aggregation(rule), 1, engine=kind) for kind in ("single", "block"))
    assert_close(one.state.server, two.state.server, 1e-10)


@pytest.mark.parametrize("rule", ROBUST)
def test_a_continued_run_has_the_same_bits(rule: str):
    aggregation = Aggregation(rule)
    whole, first = (of_processes("client state", aggregation, 1, rounds=rounds) for rounds in (4, 2))
    second = of_processes("client state", aggregation, 1, rounds=4, state=first.state)
    assert_same_bits(whole.state.server, second.state.server)


def test_a_client_that_is_left_out_has_no_part_in_the_rule():
    bad = Poisoned(rounds=(1,), sizes=(5,))
    options: dict[str, Any] = {"rounds": 1, "aggregation": "median", "block_size": 3}
    found, _ = run(bad, regression(SIZES), linear(), **options)
    others = [[i for i, n in enumerate(SIZES) if n != 5]]
    expected, _ = run(Scaffold(), regression(SIZES), linear(), cohort=others, **options)
    assert_close(found.state.server, expected.state.server, 1e-12)


# --- an attack


@dataclass(frozen=True)
class Flipped(FedAvg):
    """Clients with these numbers of examples send the opposite of their update, ten times as long."""

    sizes: tuple[int, ...] = ()

    def upload(self, y, local, msg, client, r):
        upload, client = super().upload(y, local, msg, client, r)
        attacks = (r.examples == torch.tensor(self.sizes)).any()
        return upload._replace(delta=torch.where(attacks, -10.0, 1.0) * upload.delta), client


@pytest.mark.parametrize("rule", ROBUST)
def test_a_run_with_attackers_learns_with_the_rule_and_not_without(rule: str):
    """A regression whose weights are 1 and whose bias is 0."""
    federation, wanted = regression([20, 21, 22, 23, 24, 25, 26, 27]), torch.tensor([1.0, 1, 1, 0], dtype=torch.float64)
    options: dict[str, Any] = {"rounds": 15, "local": LocalTraining(lr=0.1, steps=3, batch_size=None)}
    errors = {}
    for aggregation in (Aggregation("mean"), Aggregation(rule, trim=2, attackers=2)):
        result, _ = run(Flipped(sizes=(20, 23)), federation, linear(), aggregation=aggregation, **options)
        errors[aggregation.rule] = float((result.x - wanted).norm())
    start = float((vector(linear()) - wanted).norm())
    assert errors["mean"] > 100 * start
    assert errors[rule] < 0.5 * start


# --- too few clients


@pytest.mark.parametrize(
    ("aggregation", "cohort", "complaint"),
    [
        (
            Aggregation("krum", attackers=3),
            8,
            r"krum against 3 attackers needs at least 9 clients, not 8; .*_attackers",
        ),
        (Aggregation("multi-krum", attackers=0.45), 8, "multi-krum against 4 attackers needs at least 11 clients"),
        (Aggregation("krum"), 2, "krum against 0 attackers needs at least 3 clients, not 2"),
        (Aggregation("multi-krum", keep=9), 8, r"keeps the uploads of 9 clients, and there are 8; .*aggregation_keep"),
        (Aggregation("trimmed-mean", trim=4), 8, r"nothing remains; .*smaller server\.aggregation_trim"),
        (Aggregation("krum", attackers=2), [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2]], "needs at least 7 clients, not 3"),
    ],
)
def test_a_cohort_that_is_too_small_is_refused_before_the_run(aggregation: Aggregation, cohort: Any, complaint: str):
    with pytest.raises(InputError, match=complaint):
        run("fedavg", regression(SIZES), linear(), cohort=cohort, aggregation=aggregation)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_round_with_too_few_clients_left_is_lost_and_says_why(workers: int):
    bad = Poisoned(rounds=(2,), sizes=(5, 6))
    result, records = run(
        bad, regression(SIZES), linear(), rounds=3, aggregation=Aggregation("krum", attackers=2), workers=workers,
        block_size=3, threads=1,
    )  # fmt: skip
    assert_same_bits(records[0].server, records[1].server)
    assert not torch.equal(records[1].x, records[2].x)
    event = result.events[-1]
    assert event.round == 2
    assert event.what == (
        "round lost: krum against 2 attackers needs at least 7 clients, not 6, server state kept as it was"
    )


def test_three_such_rounds_stop_the_run_with_this_reason():
    bad = Poisoned(rounds=(2, 3, 4), sizes=(5, 6))
    with pytest.raises(Diverged, match=r"rounds 2 to 4 were lost. krum against 2 attackers .* Try a larger cohort"):
        run(bad, regression(SIZES), linear(), rounds=9, aggregation=Aggregation("krum", attackers=2))


def test_too_few_gradients_make_the_cohorts_gradient_not_a_number():
    aggregation = Aggregation("krum", attackers=1)
    plan = RoundPlan(None, "uniform", 2, False, aggregation)  # pyright: ignore[reportArgumentType]
    parts = [GradientSum(torch.randn(2, 3), torch.tensor([1.0, 1.0])), GradientSum(torch.randn(2, 3), torch.ones(2))]
    assert mean_gradient(plan, parts).isnan().all()
    enough = [*parts, GradientSum(torch.randn(2, 3), torch.tensor([0.0, 1.0]))]
    assert mean_gradient(plan, enough).isfinite().all()
    assert mean_gradient(plan, [each._replace(weight=0 * each.weight) for each in enough]).isnan().all()


# --- settings


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rule": "average"}, r"server\.aggregation must be one of 'mean', .*got 'average'"),
        ({"trim": 0.5}, r"server\.aggregation_trim must be a number in \[0, 0\.5\)"),
        ({"trim": -1}, r"server\.aggregation_trim must be a whole number of at least 0"),
        ({"trim": True}, r"server\.aggregation_trim must be a number"),
        ({"attackers": 0.7}, r"server\.aggregation_attackers must be"),
        ({"keep": 0}, r"server\.aggregation_keep must be a whole number of at least 1"),
        ({"bound": 0.0}, r"server\.aggregation_bound must be a number in \(0, inf\)"),
    ],
)
def test_other_values_are_refused(options: dict[str, Any], complaint: str):
    with pytest.raises(InputError, match=complaint):
        Aggregation(**options)


@pytest.mark.parametrize("given", [3, ["median"], Aggregation])
def test_something_else_than_a_rule_is_refused(given: Any):
    with pytest.raises(InputError, match=r"aggregation must be a rule's name or a driftless\.Aggregation"):
        run("fedavg", regression(SIZES), linear(), aggregation=given)


def test_a_share_is_rounded_up_in_decimals():
    assert [number_of(share, 100) for share in (0.07, 0.071, 7, 0.0, 0)] == [7, 8, 7, 0, 0]
    assert number_of(0.1, 3) == 1, "a small cohort is trimmed, too"
    assert Aggregation(trim=np.float64(0.1), attackers=np.int64(2)) == Aggregation(trim=0.1, attackers=2)


def test_deployment_can_ask_whether_a_rule_needs_all_uploads():
    assert {rule: Aggregation(rule).needs_all_uploads for rule in RULES} == {rule: rule != "mean" for rule in RULES}
    assert as_aggregation(None) == as_aggregation("mean") == Aggregation()


# --- what it needs


def needed(algorithm: str, **words: Any) -> memory_needed.MemoryNeeded:
    texts = [f"{name}={value}" for name, value in words.items()]
    config = resolve(None, [f"algorithm={algorithm}", "model=logistic", "cohort=20", *texts]).config
    return simulation_of(config).memory_needed


def test_the_uploads_of_the_whole_cohort_are_in_the_estimate():
    plain, median = needed("scaffold"), needed("scaffold", aggregation="median")
    assert plain.uploads == 0
    assert median.uploads == 2 * 20 * 2 * 650 * 4, "two copies, 20 clients, two vectors of 650 numbers"
    assert median.round == plain.round + median.uploads
    assert "for all uploads of a round" in median.text("memory")
    assert "for all uploads of a round" in median.text("disk")
    assert needed("mime", aggregation="krum").uploads == 2 * 20 * 650 * 4
    assert needed("mime", aggregation="krum", clipping="adaptive").uploads == 2 * 20 * (650 * 4 + 4)


def test_uploads_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch):
    options: dict[str, Any] = {"rounds": 1, "cohort": 8, "dtype": torch.float64}
    monkeypatch.setattr(memory_needed, "free_memory", lambda: 600)
    simulate("fedavg", regression(SIZES), linear(), **options)
    with pytest.raises(InputError, match=r"for all uploads of a round, and .* are free; .*server.aggregation='mean'"):
        simulate("fedavg", regression(SIZES), linear(), aggregation="median", **options)


def test_the_rule_is_said_before_a_run():
    words = ["model=logistic", "aggregation=multi-krum", "aggregation_attackers=0.3", "aggregation_trim=0.2"]
    config = resolve(None, words).config
    assert describe(config, simulation_of(config))["weighting"] == (
        "weighted by examples, aggregated by multi-krum (attackers=0.3)"
    )
    config = resolve(None, ["model=logistic", *words[2:]]).config
    assert describe(config, simulation_of(config))["weighting"] == "weighted by examples"


def test_a_run_on_disk_keeps_the_aggregation(tmp_path: Path):
    aggregation = Aggregation("multi-krum", attackers=1, keep=4)
    options: dict[str, Any] = {"rounds": 2, "cohort": 8, "dtype": torch.float64}
    stored = run_on_disk(
        "scaffold", regression(SIZES), linear(), output=tmp_path / "a", aggregation=aggregation, **options
    )
    expected = simulate("scaffold", regression(SIZES), linear(), aggregation=aggregation, **options)
    assert stored.history["norm_update"] == expected.history["norm_update"]
    server = stored.config.server
    assert (server.aggregation, server.aggregation_attackers, server.aggregation_keep) == ("multi-krum", 1, 4)
    with pytest.raises(InputError, match="aggregation"):
        run_on_disk("scaffold", regression(SIZES), linear(), output=tmp_path / "a", aggregation="median", **options)
