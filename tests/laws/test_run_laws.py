"""What must hold for every algorithm when the engine runs it: engines agree, runs repeat, continue and stay apart."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from driftless import AdaptiveClipping, Record, Result
from driftless.engine.clients import ClientStore
from driftless.testing import LAWS
from driftless.testing.problems import COHORTS, IN_BLOCKS, ROUNDS, SIZES, UNEQUAL, Setting, Trace
from driftless.testing.run_laws import RUN_LAWS, TOLERANCE, engines_disagree, states_of
from driftless.testing.trees import structure
from laws.entries import ENTRIES, KINDS, NAMES, play, trace
from laws.trees import assert_close, assert_same_bits, tensors

# The laws of one algorithm follow each other, in the same process: the runs that they share are made once.
every_algorithm = pytest.mark.parametrize("name", NAMES, scope="module")
every_kind = pytest.mark.parametrize("name", KINDS, scope="module")

ONE_BY_ONE = UNEQUAL.one_by_one
OF_KINDS = [find.__name__ for find in RUN_LAWS if find.__name__ not in ("moving_model", "engines_agree")]
"""The other two are asserted for every algorithm, the second one setting by setting."""


def rows(name: str, result: Result, clients: list[int]) -> object:
    return states_of(ENTRIES[name], result, clients)


@every_algorithm
def test_every_round_of_the_laws_moves_the_model_and_stays_finite(name: str):
    LAWS["moving_model"](ENTRIES[name])


@every_kind
@pytest.mark.parametrize("law", OF_KINDS)
def test_runs_of_an_algorithm_obey_the_law(name: str, law: str):
    LAWS[law](ENTRIES[name])


def assert_engines_agree(name: str, case: str) -> None:
    """The law, and what only the engine can get wrong: rows of the history, clients left out."""
    assert list(engines_disagree(ENTRIES[name], case)) == []
    single, block = trace(name, IN_BLOCKS[case].one_by_one), trace(name, IN_BLOCKS[case])
    assert single.result.engine["kind"] == "single"
    assert block.result.engine["kind"] == "block"
    assert len(single.records) == len(block.records) == IN_BLOCKS[case].rounds
    for one, other in zip(single.records, block.records, strict=True):
        measured = {name: value for name, value in one.metrics.items() if not name.endswith("seconds")}
        assert measured == pytest.approx({name: other.metrics[name] for name in measured}, rel=1e-9, abs=TOLERANCE)
        assert one.metrics.keys() == other.metrics.keys()
        assert one.metrics["skipped"] == 0


@every_algorithm
def test_block_equals_single_for_unequal_step_counts(name: str):
    assert_engines_agree(name, "unequal step counts")


@every_kind
@pytest.mark.parametrize("case", [case for case in IN_BLOCKS if case != "unequal step counts"])
def test_block_equals_single(name: str, case: str):
    assert_engines_agree(name, case)


@every_algorithm
def test_every_round_moves_the_model_also_in_blocks(name: str):
    models = [record.x for record in trace(name, UNEQUAL).records]
    assert all(torch.isfinite(x).all() and x.norm() < 100 for x in models)
    assert all((a - b).norm() > 1e-3 for a, b in itertools.pairwise(models))


@every_kind
def test_server_state_and_dtype_are_kept_through_a_run(name: str):
    for dtype in (torch.float32, torch.float64):
        run = trace(name, replace(UNEQUAL, dtype=dtype, rounds=2) if dtype == torch.float32 else UNEQUAL)
        first = structure(run.records[0].server)
        for record in run.records:
            assert structure(record.server) == first
            assert all(leaf.dtype == dtype for leaf in tensors(record.server).values())
            assert record.aggregate.dtype == dtype
        assert run.result.inference.dtype == dtype
        assert run.result.inference.shape == run.result.x.shape


@every_algorithm
def test_the_last_record_is_the_result(name: str):
    run = trace(name, UNEQUAL)
    assert [record.round for record in run.records] == list(range(1, ROUNDS + 1))
    assert_same_bits(run.records[-1].server, run.result.state.server)
    assert_same_bits(run.records[-1].x, run.result.x)
    assert_same_bits(run.result.inference, ENTRIES[name].inference(run.result.state.server))


@every_kind
def test_the_order_of_the_clients_in_a_cohort_is_irrelevant(name: str):
    short = replace(UNEQUAL, rounds=2)
    assert_same_run(play(name, short, cohort=[cohort[::-1] for cohort in COHORTS]), trace(name, UNEQUAL), rounds=2)


@dataclass(frozen=True)
class Unsorted:
    """The cohorts of the laws from a schedule of the user's own, which does not sort them."""

    def size(self, t: int, clients: int) -> int:
        return len(COHORTS[t - 1])

    def clients(self, t: int, clients: int, seed: int) -> np.ndarray:
        return np.roll(COHORTS[t - 1][::-1], t)

    def check(self, clients: int, rounds: int) -> None:
        assert rounds <= len(COHORTS)


@every_kind
def test_the_order_in_which_a_schedule_names_the_clients_is_irrelevant(name: str):
    short = replace(UNEQUAL, rounds=2)
    assert_same_run(play(name, short, cohort=Unsorted()), trace(name, UNEQUAL), rounds=2)


def assert_same_run(one: Trace, other: Trace, rounds: int) -> None:
    for a, b in zip(one.records[:rounds], other.records[:rounds], strict=True):
        assert_same_bits((a.x, a.aggregate, a.server), (b.x, b.aggregate, b.server))


@every_kind
def test_another_seed_gives_other_bits(name: str):
    sampled = replace(UNEQUAL, cohort=4, rounds=1)
    one, other = trace(name, sampled), trace(name, replace(sampled, seed=1))
    assert not torch.equal(one.result.x, other.result.x)


class Chain(NamedTuple):
    """The same run, one round at a time, each continuing from the state of the one before."""

    results: list[Result]
    records: list[Record]


@functools.cache
def chain(name: str, setting: Setting = UNEQUAL) -> Chain:
    results, records = list[Result](), list[Record]()
    for t in range(1, ROUNDS + 1):
        part = play(name, replace(setting, rounds=t), state=results[-1].state if results else None)
        assert [record.round for record in part.records] == [t]
        results.append(part.result)
        records += part.records
    return Chain(results, records)


@every_kind
def test_a_run_stopped_after_every_round_equals_a_run_in_one_piece(name: str):
    whole, parts = trace(name, UNEQUAL), chain(name)
    for one, other in zip(parts.records, whole.records, strict=True):
        assert_same_bits((one.x, one.aggregate, one.server), (other.x, other.aggregate, other.server))
    clients = whole.result.state.clients.clients
    assert parts.results[-1].state.clients.clients == clients
    assert_same_bits(rows(name, parts.results[-1], clients), rows(name, whole.result, clients))
    assert_same_bits(parts.results[-1].inference, whole.result.inference)


@every_kind
def test_continuing_a_run_does_not_change_the_state_it_continues(name: str):
    whole, first = trace(name, UNEQUAL), chain(name).results[2]
    clients = first.state.clients.clients
    before = rows(name, first, clients), first.state.server, first.state.aggregate
    kept = [leaf.clone() for leaf in tensors(before).values()]
    for _ in range(2):
        second = play(name, UNEQUAL, state=first.state)
        assert_same_bits(second.result.state.server, whole.result.state.server)
        assert_same_bits(rows(name, second.result, clients), rows(name, whole.result, clients))
    assert first.state.round == 3
    assert first.state.clients.clients == clients
    after = rows(name, first, clients), first.state.server, first.state.aggregate
    for leaf, value in zip(tensors(after).values(), kept, strict=True):
        assert torch.equal(leaf, value)


@every_algorithm
def test_clients_outside_the_cohort_keep_their_state_to_the_bit(name: str):
    parts = chain(name, ONE_BY_ONE)
    keeps_state = bool(tensors(ENTRIES[name].init_client(parts.results[0].x)))
    seen: set[int] = set()
    for before, after, cohort in zip([None, *parts.results], parts.results, COHORTS, strict=False):
        absent = sorted(seen - set(cohort))
        seen |= set(cohort)
        store = after.state.clients
        assert isinstance(store, ClientStore)
        assert set(store.clients) == (seen if keeps_state else set())
        assert len(store) == len(store.clients)
        assert 6 not in store
        if before is not None and absent:
            assert_same_bits(rows(name, before, absent), rows(name, after, absent))


@pytest.mark.parametrize("name", [n for n in NAMES if tensors(ENTRIES[n].init_client(torch.zeros(2)))])
def test_clients_of_the_cohort_get_a_new_state(name: str):
    """Without this, the law above would also hold for a store that never changes."""
    parts = chain(name, ONE_BY_ONE)
    for before, after, cohort in zip(parts.results, parts.results[1:], COHORTS[1:], strict=False):
        for client in cohort:
            old = torch.cat([leaf.flatten() for leaf in tensors(rows(name, before, [client])).values()])
            new = torch.cat([leaf.flatten() for leaf in tensors(rows(name, after, [client])).values()])
            assert not torch.equal(old, new), f"client {client}"


@pytest.mark.parametrize("name", [name for name in KINDS if ENTRIES[name].full_gradient != "before"])
def test_the_aggregate_is_the_weighted_mean_of_what_the_clients_reach_alone(name: str):
    """Not for algorithms whose local steps depend on who else is in the cohort."""
    two = chain(name).results[1]
    cohort = COHORTS[2]
    together = chain(name).records[2].aggregate
    alone = [
        play(name, replace(UNEQUAL, rounds=3), cohort=[*COHORTS[:2], [i]], state=two.state).records[0].aggregate
        for i in cohort
    ]
    weights = [float(SIZES[i]) if ENTRIES[name].weighting == "examples" else 1.0 for i in cohort]
    expected = sum(w * x for w, x in zip(weights, alone, strict=True)) / sum(weights)
    assert (alone[0] - alone[1]).norm() > 1e-3
    assert_close(together, expected, 1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(ENTRIES[name], AdaptiveClipping)])
def test_some_updates_of_a_cohort_are_clipped_and_others_are_not(name: str):
    """rho <- rho * exp(-lr * (share - quantile)) tells the share of the cohort whose update was short enough."""
    algorithm = ENTRIES[name]
    rho = torch.tensor([algorithm.initial, *(float(record.server.rho) for record in trace(name, UNEQUAL).records)])
    shares = algorithm.quantile - (rho[1:] / rho[:-1]).log() / algorithm.lr
    assert ((shares > 0.1) & (shares < 0.9)).any()
