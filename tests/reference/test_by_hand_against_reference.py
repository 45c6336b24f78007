"""The numbers of by_hand.md against the references."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from .algorithms import Problem, adabest, fedgbo, ghbm, scaffold

A, B = 0, 1


def two_clients():
    clients = []
    for a, b in [(1, 0), (2, 4)]:
        root = np.sqrt(a)
        clients.append((np.array([[root]]), np.array([root * b])))
    return Problem(clients=clients, layers=[slice(0, 1)])


def run(algorithm, cohorts, **hyper):
    return algorithm(two_clients(), np.array([8.0]), cohorts, 2, 0.25, **hyper)


def table(heading):
    """The rows of the table of a section of by_hand.md, one dict of column name to text per row."""
    text = Path(__file__).with_name("by_hand.md").read_text(encoding="utf-8")
    section = next(part for part in text.split("\n## ") if part.startswith(heading))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def close(value, fraction):
    return float(np.squeeze(value)) == pytest.approx(float(Fraction(fraction)), abs=1e-13)


def test_adabest_gives_the_fractions_worked_by_hand():
    rows = table("AdaBest")
    history = run(adabest, [[A, B], [B], [A, B]], mu=0.5, beta=0.5, size_adaptive=False)
    assert len(rows) == len(history) == 3
    for row, record in zip(rows, history, strict=True):
        assert close(record["aggregate"], row["x_bar"])
        assert close(record["h"], row["h"])
        assert close(record["x"], row["x"])
        assert close(record["h_i"][A], row["h_A"])
        assert close(record["h_i"][B], row["h_B"])


def test_size_adaptive_adabest_gives_the_same_fractions_because_the_clients_are_equally_large():
    rows = table("AdaBest")
    history = run(adabest, [[A, B], [B], [A, B]], mu=0.5, beta=0.5, size_adaptive=True)
    assert len(rows) == len(history) == 3
    for row, record in zip(rows, history, strict=True):
        assert close(record["aggregate"], row["x_bar"])
        assert close(record["h"], row["h"])
        assert close(record["x"], row["x"])
        assert close(0.5 * record["h_i"][A], row["h_A"])
        assert close(0.5 * record["h_i"][B], row["h_B"])


def test_scaffold_gives_the_fractions_worked_by_hand():
    rows = table("SCAFFOLD")
    history = run(scaffold, [[A, B], [B]], option=2)
    assert len(rows) == len(history) == 2
    for row, record in zip(rows, history, strict=True):
        assert close(record["x"], row["x"])
        assert close(record["c"], row["c"])
        assert close(record["c_i"][A], row["c_A"])
        assert close(record["c_i"][B], row["c_B"])


def test_fedgbo_gives_the_fractions_worked_by_hand():
    rows = table("FedGBO")
    history = run(fedgbo, [[A, B], [A, B]], optimizer="sgdm", beta=0.5)
    assert len(rows) == len(history) == 2
    for row, record in zip(rows, history, strict=True):
        assert close(record["x"], row["x"])
        assert close(record["inverse"], row["G"])
        assert close(record["m"], row["m"])


def test_ghbm_gives_the_fractions_worked_by_hand():
    rows = table("GHBM")
    assert len(rows) == 3
    for row in rows:
        tau, start = row["tau, start"].split(", ")
        history = run(ghbm, [[A, B], [A, B]], beta=0.5, tau=int(tau), start=start)
        assert close(history[0]["x"], row["x^1"])
        assert close(history[1]["x"], row["x^2"])
