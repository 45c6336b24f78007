"""Three candidates from what is seen of a federation, without training."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import driftless
from driftless.algorithms import ALGORITHMS
from driftless.cli import app
from driftless.compare import plan as plan_comparison
from driftless.errors import InputError
from driftless.suggest import Suggestion, suggest
from driftless.suggest.facts import facts_of, mean_distance
from driftless.tune import plan as plan_search

SKEWED = ["data=digits", "data.clients=100", "data.partition=dirichlet", "data.alpha=0.05", "rounds=60", "cohort=10"]
SELDOM = ["data=digits", "data.clients=350", "data.partition=dirichlet", "data.alpha=0.1", "rounds=50", "cohort=3"]
IID = ["data=digits", "data.clients=50", "data.partition=iid", "rounds=60", "cohort=10"]


def invoked(*words: str) -> str:
    result = CliRunner().invoke(app, ["suggest", *words])
    if result.exception:
        raise result.exception
    return result.output


def names(suggestion: Suggestion) -> list[str]:
    return [one.name for one in suggestion.candidates]


@pytest.fixture(scope="module")
def skewed() -> driftless.Federation:
    return driftless.load("digits", clients=100, partition="dirichlet", alpha=0.05, seed=0)


@pytest.fixture(scope="module")
def regression() -> driftless.Federation:
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    return driftless.Federation.from_clients([(rows, rows[:, :1]) for rows in x.split(10)])


def test_the_skew_of_labels_is_their_total_variation_distance():
    owners, labels = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    assert mean_distance(owners, labels) == 0.5
    assert mean_distance(owners, np.array([0, 1, 0, 1])) == 0
    rng = np.random.default_rng(0)
    owners, labels = rng.integers(0, 5, 200), rng.integers(0, 4, 200)
    overall = np.bincount(labels, minlength=4) / 200
    each = [np.bincount(labels[owners == i], minlength=4) / (owners == i).sum() for i in range(5)]
    assert mean_distance(owners, labels) == pytest.approx(np.mean([np.abs(one - overall).sum() / 2 for one in each]))


def test_clients_with_few_labels_are_told_from_clients_that_are_alike(skewed: driftless.Federation):
    assert facts_of(skewed, 10, 60).labels == "few"
    assert facts_of(driftless.load("digits", clients=100, partition="iid", seed=0), 10, 60).labels == "alike"
    some = driftless.load("digits", clients=100, partition="dirichlet", alpha=0.5, seed=0)
    assert facts_of(some, 10, 60).labels == "some"


def test_clients_with_few_examples_are_not_taken_for_clients_with_few_labels():
    """Three examples have at most three of ten labels, however they are dealt."""
    facts = facts_of(driftless.load("digits", clients=450, partition="iid", seed=0), 10, 60)
    assert facts.skew is not None
    assert facts.skew > 0.6
    assert facts.labels == "alike"


def test_facts_count_how_often_a_client_returns(skewed: driftless.Federation):
    facts = facts_of(skewed, 0.05, 60)
    assert (facts.clients, facts.cohort, facts.returns) == (100, 5, 3)
    assert not facts.seldom
    assert facts_of(skewed, 3, 60).seldom


def test_skewed_labels_give_what_was_best_there_before_fedavg(skewed: driftless.Federation):
    found = suggest(skewed, rounds=60, cohort=10)
    assert found.situation == "few labels"
    gains = [one.gain for one in found.candidates]
    assert len(gains) == 3
    assert all(gain is not None and gain > 0 for gain in gains)
    assert gains == sorted(gains, key=lambda gain: -(gain or 0))
    assert all(one.why and one.why[0].verdict == "supported" for one in found.candidates)


def test_clients_that_seldom_return_are_a_situation_of_their_own(skewed: driftless.Federation):
    assert suggest(skewed, rounds=10, cohort=3).situation == "seldom"


@pytest.mark.parametrize("rounds", [5, 100])
@pytest.mark.parametrize("client_state", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_there_are_always_three_candidates(
    skewed: driftless.Federation, rounds: int, client_state: bool, private: bool
):
    found = suggest(skewed, "logistic", rounds=rounds, cohort=5, client_state=client_state, private=private, upload=1)
    assert len(found.candidates) == 3


def test_clients_that_are_alike_give_fedavg_first():
    federation = driftless.load("digits", clients=50, partition="iid", seed=0)
    assert names(suggest(federation, rounds=60, cohort=10))[0] == "fedavg"


def test_a_federation_without_labels_is_said_to_be_one(regression: driftless.Federation):
    found = suggest(regression, torch.nn.Linear(5, 1), rounds=60, cohort=5)
    assert found.situation == "any"
    assert found.facts.skew is None
    assert "targets are numbers" in str(found)
    assert any("No study" in note for note in found.notes)
    assert found.candidates[0].cost.parameters == 6


def test_without_client_state_no_candidate_keeps_any(skewed: driftless.Federation):
    free = suggest(skewed, rounds=60, cohort=10)
    bound = suggest(skewed, rounds=60, cohort=10, client_state=False)
    assert any(one.cost.vectors.client for one in free.candidates)
    assert not any(one.cost.vectors.client for one in bound.candidates)


@pytest.mark.parametrize("limit", [{"upload": 1.0}, {"upload_bytes": "71kB"}, {"upload_bytes": 71_000}])
def test_a_limit_of_the_upload_leaves_out_what_exceeds_it(skewed: driftless.Federation, limit: dict[str, float]):
    found = suggest(skewed, rounds=60, cohort=10, **limit)
    assert len(found.candidates) == 3
    assert all(one.cost.vectors.up == 1 for one in found.candidates)


def test_private_candidates_work_with_differential_privacy(skewed: driftless.Federation):
    found = suggest(skewed, rounds=60, cohort=10, private=True)
    assert found.situation == "private"
    for one in found.candidates:
        assert ALGORITHMS[one.name].full_gradient != "before"


def test_a_mistake_is_answered_with_what_to_do(skewed: driftless.Federation):
    with pytest.raises(InputError, match=r"70\.4 kB a client and round; raise the limit"):
        suggest(skewed, upload_bytes="1kB")
    with pytest.raises(InputError, match="give bytes such as"):
        suggest(skewed, upload_bytes="much")
    with pytest.raises(InputError, match="upload"):
        suggest(skewed, upload=-1)
    with pytest.raises(InputError, match=r"driftless\.Federation"):
        suggest("digits")  # pyright: ignore
    with pytest.raises(InputError, match="algorithm=fedavg"):
        invoked("fedavg")
    with pytest.raises(InputError, match="digits"):
        invoked("data=digit")


@pytest.mark.parametrize("words", [SKEWED, SELDOM, IID], ids=["skewed", "seldom", "iid"])
def test_the_commands_that_are_printed_are_valid(words: list[str]):
    found = json.loads(invoked(*words, "--json"))
    for one in found["candidates"]:
        program, command, *settings = shlex.split(one["command"])
        assert (program, command) == ("driftless", "tune")
        assert f"algorithm={one['algorithm']}" in settings
        assert plan_search.plan(None, settings).trials >= 6
    program, command, *settings = shlex.split(found["next"])
    assert (program, command) == ("driftless", "compare")
    algorithms = [word for word in settings if "=" not in word]
    assert algorithms[0] == "fedavg"
    plan_comparison(algorithms, None, [word for word in settings if "=" in word])


def test_the_text_fits_80_columns_and_its_commands_can_be_copied():
    text = invoked(*SKEWED)
    assert max(map(len, text.splitlines())) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())
    commands = shlex.split(text[text.index("driftless compare") :])
    assert commands[-1] == "seeds=5"
    for word in SKEWED:
        assert word in commands


def test_json_has_what_the_text_has():
    found = json.loads(invoked(*SKEWED, "--no-client-state", "--json"))
    assert found["facts"]["clients"] == 100
    assert found["facts"]["labels"] == "few"
    assert len(found["candidates"]) == 3
    for one in found["candidates"]:
        assert one["vectors"]["client"] == 0
        assert one["bytes"]["up"] == 4 * 17610


def test_own_data_and_a_configuration_file_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import driftless\n\n\ndef data():\n    return driftless.load('digits', clients=30, partition='shards')\n"
    )
    Path("mine.toml").write_text('[data]\nname = "mine.py:data"\n\n[run]\nrounds = 40\ncohort = 6\n')
    found = json.loads(invoked("mine.toml", "--json"))
    assert (found["facts"]["clients"], found["facts"]["returns"]) == (30, 8)
    assert "mine.toml" in found["next"]
