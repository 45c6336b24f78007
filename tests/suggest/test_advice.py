"""The advice rests on published verdicts, and says where nothing was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from driftless.algorithms import ALGORITHMS
from driftless.cost import vectors
from driftless.errors import InputError
from driftless.suggest.advice import (
    BY_CONSTRUCTION,
    NOT_TESTED,
    SITUATIONS,
    Sentence,
    advice,
    published_verdict,
    stored,
)
from driftless.tune.space import SEARCHED

RESULTS = Path(__file__).parents[2] / "docs" / "papers" / "results"
SENTENCES = [(name, one) for name in ALGORITHMS for one in (*advice(name).helps, *advice(name).hurts)]


def test_every_algorithm_has_an_entry_and_nothing_else_has():
    assert [*stored()] == [*ALGORITHMS]
    for name in ALGORITHMS:
        assert advice(name).helps or advice(name).hurts


def test_an_unknown_algorithm_is_named_with_the_nearest():
    with pytest.raises(InputError, match="fedprox"):
        advice("fedprx")


def test_advice_relies_on_the_published_verdict():
    for name, one in SENTENCES:
        if one.evidence in (BY_CONSTRUCTION, NOT_TESTED):
            assert not one.verdict, f"{name}: {one.text}"
            continue
        assert one.verdict in ("supported", "refuted"), f"{name}: {one.text}"
        assert published_verdict(one.evidence) == one.verdict, f"{name}: {one.text}"


def test_what_is_not_published_has_no_verdict():
    assert published_verdict("guide/labels/no-such-claim") is None
    assert published_verdict("guide/no-such-study/scaffold") is None


def claim_of(one: Sentence) -> dict:
    collection, experiment, name = one.evidence.split("/")
    claims = json.loads((RESULTS / collection / f"{experiment}.json").read_text(encoding="utf-8"))["claims"]
    return next(claim for claim in claims if claim["name"] == name)


def test_gains_are_the_measured_ones_and_stand_in_the_text():
    measured = [(name, one) for name, one in SENTENCES if one.evidence.startswith("guide/") and one.gain is not None]
    assert measured
    for name, one in measured:
        differences = [np.mean(check["differences"]) for check in claim_of(one)["checks"]]
        assert one.gain == pytest.approx(np.mean(differences), abs=0.051), f"{name}: {one.text}"
        assert f"{abs(one.gain):.1f} points {'more' if one.gain > 0 else 'less'}" in one.text
        assert (one.gain > 0) == (one in advice(name).helps)
        assert one.when in SITUATIONS


def test_a_situation_is_known_and_has_one_gain_an_algorithm():
    for name in ALGORITHMS:
        gains = [one.when for one in (*advice(name).helps, *advice(name).hurts) if one.gain is not None]
        assert len(set(gains)) == len(gains), name
    assert {one.when for _, one in SENTENCES} <= {"", *SITUATIONS}


def test_what_is_said_by_construction_of_vectors_is_what_the_code_sends():
    counts = {"One vector up": ("up", 1), "Two vectors up": ("up", 2), "Two vectors down": ("down", 2)}
    counted = {name: vectors(cls()) for name, cls in ALGORITHMS.items()}
    for name, one in SENTENCES:
        amounts = counted[name]
        for text, (field, number) in counts.items():
            if one.text.startswith(text):
                assert getattr(amounts, field) == number, f"{name}: {one.text}"
        if "one vector each way" in one.text.lower():
            assert (amounts.up, amounts.down) == (1, 1), name
        if "no state" in one.text.lower():
            assert amounts.client == 0, name
        if one.text.startswith("Each client keeps a vector"):
            assert amounts.client == 1, name


def test_the_spaces_can_be_searched():
    for name in ALGORITHMS:
        for key, values in advice(name).space.items():
            assert key.partition(".")[0] in SEARCHED
            assert len(values) >= 2
