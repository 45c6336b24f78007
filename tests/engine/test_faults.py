"""Runs with faults: what is lost is said, what is lost changes nothing, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import driftless
from driftless import Faults, InputError, LocalTraining, ServerSchedule
from driftless.algorithms import FedAvg
from driftless.engine.history import Event, first_events
from driftless.engine.participation import REASONS
from engine.own import Keeper, LastModel, Poisoned, Probe
from engine.problems import classification, linear, network, regression, run
from engine.test_cluster import assert_same, rows_of

SIZES = [6, 4, 5, 7, 3, 8, 6, 5, 9, 2]
LOCAL = LocalTraining(lr=0.1, epochs=1, batch_size=3)
OPTIONS: dict[str, Any] = {"rounds": 6, "cohort": 5, "local": LOCAL, "engine": "single"}
BLOCKS = {"engine": "block", "block_size": 2, "threads": 1}
LOSING = {
    "dropout": Faults(dropout=0.4),
    "rates": Faults(dropout=0.4, dropout_spread=0.6),
    "deadline": Faults(deadline=11.0),
    "over-selection": Faults(over_selection=1.5, dropout=0.2),
    "availability": Faults(availability="diurnal", availability_day=4),
}


# --- settings


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"dropout": 1.0}, r"faults\.dropout must be a number in \[0, 1\)"),
        ({"dropout": -0.1}, r"faults\.dropout must"),
        ({"dropout": "often"}, r"faults\.dropout must"),
        ({"dropout": [0.1, 2.0]}, r"faults\.dropout of client 1 must be a number in \[0, 1\]"),
        ({"dropout": [0.1, 0.2], "dropout_spread": 0.1}, "give one of both"),
        ({"dropout_spread": 1.0}, r"faults\.dropout_spread"),
        ({"deadline": 0.0}, r"faults\.deadline"),
        ({"deadline": float("inf")}, r"faults\.deadline"),
        ({"over_selection": 0.9}, r"faults\.over_selection"),
        ({"availability": "sometimes"}, "must be one of 'always', 'client', 'diurnal'"),
        ({"availability_mean": 0.0}, r"faults\.availability_mean"),
        ({"availability_spread": 1.0}, r"faults\.availability_spread"),
        ({"availability_swing": 1.1}, r"faults\.availability_swing"),
        ({"availability_day": 0.5}, r"faults\.availability_day"),
        ({"availability_zones": -1}, r"faults\.availability_zones"),
        ({"trace": 3}, r"faults\.trace must be the path of a file"),
        ({"attack": "steal"}, "must be one of 'none', 'nan'"),
        ({"attack": "nan"}, r"needs faults\.attackers"),
        ({"attackers": 0.2}, r"needs faults\.attack,"),
        ({"attack": "nan", "attackers": 1.5}, r"faults\.attackers"),
        ({"attack": "scale", "attackers": 0.5, "attack_scale": -1.0}, r"faults\.attack_scale"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(given: dict[str, Any], complaint: str):
    with pytest.raises(InputError, match=complaint):
        Faults(**given)


def test_rates_may_be_a_list_or_an_array_and_a_trace_a_path():
    assert Faults(dropout=[0.1, 0.2]) == Faults(dropout=np.array([0.1, 0.2])) == Faults(dropout=(0.1, 0.2))  # pyright: ignore
    assert Faults(trace=Path("a.csv")) == Faults(trace="a.csv")


def test_what_is_not_a_faults_is_refused():
    with pytest.raises(InputError, match=r"faults must be a driftless\.Faults"):
        run("fedavg", regression([3, 4]), linear(), faults={"dropout": 0.1})


def test_attacks_have_a_scale_of_their_own_unless_one_is_given():
    assert Faults(attack="scale", attackers=0.1).scale == 10
    assert Faults(attack="sign-flip", attackers=0.1).scale == 1
    assert Faults(attack="sign-flip", attackers=0.1, attack_scale=5).scale == 5


# --- runs


def test_settings_that_lose_nobody_give_the_bits_and_the_columns_of_a_run_without():
    plain, _ = run("scaffold", regression(SIZES), linear(), **OPTIONS)
    for faults in (Faults(), Faults(dropout=0.0, attack="nan", attackers=0.0), Faults(availability_mean=0.1)):
        assert_same(run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=faults)[0], plain)


def test_faults_that_happen_to_nobody_change_columns_and_no_bits():
    plain, _ = run("scaffold", regression(SIZES), linear(), **OPTIONS)
    faults = Faults(deadline=1e9, dropout=1e-15, attack="nan", attackers=0.0)
    result, _ = run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=faults)
    for row in result.history:
        assert (row.pop("available"), row.pop("selected")) == (10, 5)
        assert [row.pop(f"lost_{why}") for why in ("dropout", "deadline", "surplus", "unavailable")] == [0] * 4
    assert_same(result, plain)


@pytest.mark.parametrize("name", LOSING)
def test_rows_and_events_say_who_was_lost_and_why(name: str):
    result, records = run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=LOSING[name])
    words = {"dropout": "dropped out", "deadline": "missed the deadline", "surplus": "enough others were faster"}
    assert sum(row["selected"] - row["cohort"] for row in result.history) + (name == "availability") > 0
    for record in records:
        row, lost = record.metrics, [event for event in record.events if event.clients]
        assert row["cohort"] == len(record.cohort)
        assert row["selected"] == row["cohort"] + row["lost_dropout"] + row["lost_deadline"] + row["lost_surplus"]
        for why, said in words.items():
            named = [client for event in lost if said in event.what for client in event.clients]
            assert len(named) == row[f"lost_{why}"]
            assert not set(named) & set(record.cohort)
        assert row["skipped"] == 0


def test_a_lost_client_costs_the_message_and_no_answer():
    """FedAvg sends 4 numbers of 8 bytes each way."""
    result, _ = run("fedavg", regression(SIZES), linear(), **OPTIONS, faults=Faults(dropout=0.5))
    for row in result.history:
        assert row["bytes_down"] == 32 * row["selected"]
        assert row["bytes_up"] == 32 * row["cohort"]
    assert sum(result.history["lost_dropout"]) > 5


@pytest.mark.parametrize("engine", ["single", "block"])
def test_a_round_is_one_of_those_who_arrived_and_the_lost_clients_states_stay(engine: str):
    """The run equals one whose cohorts were given, and whose clients were never lost."""
    options = OPTIONS | BLOCKS | {"engine": engine, "rounds": 4}
    result, records = run("scaffold", regression(SIZES), linear(), **options, faults=Faults(dropout=0.4))
    cohorts = [list(record.cohort) for record in records]
    assert all(cohorts)
    assert sum(map(len, cohorts)) < 20
    expected, _ = run("scaffold", regression(SIZES), linear(), **options | {"cohort": cohorts})
    assert torch.equal(result.x, expected.x)
    assert result.state.clients.clients == expected.state.clients.clients
    for client in result.state.clients.clients:
        pairs = zip(result.state.clients.rows([client]), expected.state.clients.rows([client]), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_the_state_of_a_lost_client_is_as_it_was_to_the_bit():
    faults, options = Faults(dropout=0.5), OPTIONS | {"cohort": 10}
    records: list[Any] = []
    states: list[Any] = []

    def keep(record: Any) -> None:
        records.append(record)
        states.append(record.state.copy())  # the store itself is written in place

    run(Keeper(), regression(SIZES), linear(), **options, faults=faults, on_round=keep)
    initial, returned = LastModel(torch.zeros(4, dtype=torch.float64)), 0
    for record, before, after in zip(records[1:], states, states[1:], strict=False):
        for client in range(10):
            one, other = (state.clients.get([client], initial).y[0] for state in (before, after))
            assert torch.equal(one, other) == (client not in record.cohort)
            returned += client in before.clients and client not in record.cohort
    assert returned > 5


def test_the_algorithm_is_told_the_number_of_clients_that_arrived():
    result, records = run(Probe(), regression(SIZES), linear(), **OPTIONS, faults=Faults(dropout=0.4))
    assert result.state.server.cohort == len(records[-1].cohort)
    assert any(record.server.cohort < 5 for record in records)


def test_a_round_in_which_nobody_arrives_is_an_event_and_no_divergence():
    faults = Faults(dropout=[1.0] * len(SIZES))
    schedule = ServerSchedule("sqrt", reference_cohort=5)
    result, records = run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=faults, server=schedule)
    assert len(result.history) == 6
    assert result.state.lost == 0
    x = torch.cat([p.detach().flatten() for p in linear().parameters()])
    assert torch.equal(result.x, x)
    assert len(result.state.clients) == 0
    for record in records:
        assert record.cohort == ()
        assert [event.what for event in record.events] == [
            "dropped out of the round, state kept as it was", "round without clients: server state kept as it was",
        ]  # fmt: skip
        assert "train_loss" not in record.metrics
        assert (record.metrics["bytes_up"], record.metrics["examples"]) == (0, 0)
        assert record.metrics["test_loss"] > 0


def test_rounds_that_are_not_finite_still_end_a_run_between_empty_ones():
    cohort = [[0], [1], [0], [1], [0], [1]]
    faults = Faults(dropout=[0.0] + [1.0] * 9)
    with pytest.raises(driftless.Diverged):
        run(Poisoned(rounds=(1, 3, 5)), regression(SIZES), linear(), rounds=6, cohort=cohort, faults=faults)


@pytest.mark.parametrize("name", LOSING)
def test_a_run_that_is_continued_from_its_state_equals_one_that_was_not(name: str):
    options = OPTIONS | {"faults": LOSING[name]}
    whole, _ = run("scaffold", regression(SIZES), linear(), **options)
    first, _ = run("scaffold", regression(SIZES), linear(), **options | {"rounds": 3})
    second, _ = run("scaffold", regression(SIZES), linear(), **options, state=first.state)
    assert torch.equal(whole.x, second.x)
    assert rows_of(whole)[3:] == rows_of(second)


def test_a_trace_of_a_runs_own_losses_replays_it_exactly(tmp_path: Path):
    faults = Faults(dropout=0.3, dropout_spread=0.5)
    result, _ = run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=faults)
    trace = tmp_path / "trace.csv"
    lines = (f"{event.round},{client},dropout\n" for event in result.events for client in event.clients)
    trace.write_text("round,client,fault\n" + "".join(lines))
    again, _ = run("scaffold", regression(SIZES), linear(), **OPTIONS, faults=Faults(trace=trace))
    assert sum(result.history["lost_dropout"]) > 0
    assert_same(again, result)


def test_a_client_that_a_trace_says_is_away_is_not_drawn(tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    away = [(2, client) for client in range(6)]
    trace.write_text("".join(f'{{"round": {t}, "client": {i}, "fault": "unavailable"}}\n' for t, i in away))
    _, records = run("fedavg", regression(SIZES), linear(), **OPTIONS, faults=Faults(trace=trace))
    assert records[1].cohort == (6, 7, 8, 9)
    assert [record.metrics["available"] for record in records] == [10, 4, 10, 10, 10, 10]
    _, cyclic = run("fedavg", regression(SIZES), linear(), **OPTIONS | {"cohort": [[0, 6, 7]] * 6},
                    faults=Faults(trace=trace))  # fmt: skip
    assert cyclic[1].cohort == (6, 7)
    assert cyclic[1].metrics["lost_unavailable"] == 1
    assert cyclic[1].events == (Event(2, REASONS["unavailable"], (0,)),)


WORKERS = {
    "lost clients": ("scaffold", Faults(dropout=0.4, over_selection=1.4, deadline=14.0, availability="client")),
    "attacked gradients": ("mime", Faults(attack="sign-flip", attackers=0.3)),
    "attackers left out": ("feddyn", Faults(attack="nan", attackers=0.3, dropout=0.2)),
    "empty rounds": ("scaffold", Faults(dropout=0.9)),
    "wrong labels": ("scaffold", Faults(attack="label-flip", attackers=0.4)),
}


@pytest.mark.parametrize("name", WORKERS)
def test_the_number_of_workers_does_not_change_a_bit_of_a_run_with_faults(name: str):
    algorithm, faults = WORKERS[name]
    labels = faults.attack == "label-flip"
    federation, model = (classification(SIZES), network()) if labels else (regression(SIZES), linear())
    options = OPTIONS | BLOCKS | {"rounds": 4, "faults": faults}
    if algorithm == "feddyn":
        options["inference"] = "clients"
    one, two = (run(algorithm, federation, model, **options, workers=number)[0] for number in (1, 2))
    assert_same(two, one)


# --- what is shown


def test_events_of_many_rounds_are_one_line_and_rare_ones_stay_readable():
    events = [Event(t, "dropped out", (t, t + 1)) for t in range(1, 61)]
    rare = Event(7, "update not finite", (3,))
    assert first_events([*events[:7], rare, *events[7:]]) == [
        "round 7: update not finite (clients 3)", "dropped out: 120 times in 60 rounds, first in round 1",
    ]  # fmt: skip
    few = [Event(t, "dropped out", (t,)) for t in range(1, 4)]
    assert first_events(few) == [f"round {t}: dropped out (clients {t})" for t in range(1, 4)]
    mixed = [Event(t, f"notice {t}") for t in range(8)]
    assert first_events(mixed)[-1] == "... and 3 more events"
    assert len(first_events(mixed)) == 6


def test_a_run_on_disk_with_faults_from_python_is_the_run_of_simulate(tmp_path: Path):
    federation = driftless.load("digits", clients=20, seed=0)
    arguments: dict[str, Any] = {"rounds": 2, "cohort": 5, "local": LocalTraining(epochs=1)}
    faults = Faults(dropout=[0.5] * 20, attack="scale", attackers=0.1)
    stored = driftless.run(FedAvg(), federation, "logistic", output=tmp_path / "run", faults=faults, **arguments)
    assert stored.config.faults.dropout == [0.5] * 20
    direct = driftless.simulate(FedAvg(), federation, "logistic", faults=faults, **arguments)
    assert direct.history["cohort"] == stored.history["cohort"]
    assert direct.history["test_loss"] == stored.history["test_loss"]
