from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from deploy.in_process import FIRST_NODE, ROUNDS, Asked, Nodes, played
from driftless.deploy.protocol import HEADER, MESSAGE, UPLOAD, Answer, Request, header, read_header
from driftless.deploy.records import as_array
from driftless.deploy.refusal import Refused


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """After a whole run of an algorithm with client states."""
    return played(tmp_path_factory.mktemp("federation"))[0]


def copy_of(nodes: Nodes, folder: Path) -> Nodes:
    shutil.copytree(nodes.folder, folder / "copy")
    return Nodes(folder / "copy", nodes.config)


def changed(asked: Asked, **fields: Any) -> RecordDict:
    return RecordDict({**asked.content, HEADER: header(asked.request._replace(**fields))})


def bits(answer: RecordDict) -> dict[str, bytes]:
    return {name: array.data for name, array in answer.array_records[UPLOAD].items()}


def files_of(folder: Path) -> dict[str, Any]:
    """Header and bytes of each state; safetensors writes the fields of a header in any order."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}
    ends = {name: 8 + int.from_bytes(content[:8], "little") for name, content in found.items()}
    return {name: (json.loads(content[8 : ends[name]]), content[ends[name] :]) for name, content in found.items()}


@pytest.mark.parametrize("t", [2, 3, ROUNDS])
def test_a_request_that_arrives_again_gets_the_same_bits_and_no_state_changes(nodes: Nodes, tmp_path: Path, t: int):
    asked, again = nodes.trained(1, t), copy_of(nodes, tmp_path)
    before = files_of(again.states(1))
    answer = again.answered(1, asked.content)
    assert bits(answer) == bits(asked.answer)
    assert files_of(again.states(1)) == before


def test_a_request_that_arrives_again_does_not_begin_anew_what_it_can_no_longer_repeat(nodes: Nodes, tmp_path: Path):
    asked, again = nodes.trained(1, 3), copy_of(nodes, tmp_path)
    (old,) = again.states(1).rglob("round-00000002.safetensors")
    old.unlink()  # as the node itself does later
    before = files_of(again.states(1))
    with pytest.raises(Refused, match="round 3 was answered before, and the state that it began with was removed"):
        again.answered(1, changed(asked, reset_lost_state=True))
    assert files_of(again.states(1)) == before


def test_a_node_without_its_state_refuses_and_may_be_told_to_begin_anew(nodes: Nodes, tmp_path: Path):
    asked, empty = nodes.trained(1, ROUNDS), Nodes(tmp_path, nodes.config)
    with pytest.raises(
        Refused, match=f"^the state of round {ROUNDS - 1} is not here; its disk may have been replaced$"
    ):
        empty.answered(1, asked.content)
    answer = empty.answered(1, changed(asked, reset_lost_state=True))
    assert read_header(answer, Answer, {UPLOAD}).state_was_lost
    assert bits(answer) == bits(empty.answered(1, changed(asked, state_round=0)))
    assert bits(answer) != bits(asked.answer)


def test_the_state_of_another_node_is_refused(nodes: Nodes, tmp_path: Path):
    asked, thief = nodes.trained(1, ROUNDS), Nodes(tmp_path, nodes.config)
    (folder,) = (nodes.states(1) / asked.request.run).iterdir()
    copy = shutil.copytree(folder, thief.states(1) / asked.request.run / folder.name)
    assert bits(thief.answered(1, asked.content)) == bits(asked.answer)
    shutil.rmtree(copy)
    shutil.copytree(folder, thief.states(2) / asked.request.run / f"client-1-node-{FIRST_NODE + 2}")
    with pytest.raises(Refused, match="is of another node"):
        thief.answered(2, asked.content)
    shutil.copytree(nodes.states(1), thief.states(3))  # under the name of its owner it is not even looked at
    with pytest.raises(Refused, match="is not here"):
        thief.answered(3, asked.content)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"algorithm.name": "adabest"}, "the algorithm is Scaffold .* at the server and AdaBest .* at the node"),
        ({"algorithm.option": 1}, "the algorithm is Scaffold"),
        ({"local.lr": 0.2}, "the local training is"),
        ({"local.epochs": 2}, "the local training is"),
        ({"run.seed": 6}, "the seed is 5 at the server and 6 at the node"),
        ({"engine.precision": "float64"}, "the precision is torch.float32 at the server and torch.float64 at the node"),
    ],
)
def test_a_node_with_other_settings_refuses_and_says_which(nodes: Nodes, config: dict[str, Any], reason: str):
    asked = nodes.trained(1, ROUNDS)
    with pytest.raises(Refused, match=f"^{reason}"):
        nodes.answered(1, asked.content, **config)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            '"version of driftless": "',
            '"version of driftless": "0.',
            "^the version of driftless is 0\\..* at the server",
        ),
        ('"model": "', '"model": "0', "^the model is 0.* at the server"),
        ('"loss"', '"lose"', "^the loss is None at the server"),
        ("{", "[", "is not JSON$"),
        ("}", "", "is not JSON$"),
    ],
)
def test_a_server_with_other_facts_is_refused(nodes: Nodes, old: str, new: str, reason: str):
    asked = nodes.trained(1, ROUNDS)
    with pytest.raises(Refused, match=reason):
        nodes.answered(1, changed(asked, facts=asked.request.facts.replace(old, new)))
    with pytest.raises(Refused, match=r"^what both sides must have the same is not a list of facts$"):
        nodes.answered(1, changed(asked, facts="[]"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"protocol": 2}, "the message is of protocol 2, and this side has 1"),
        ({"task": "delete"}, "task of the request is delete"),
        ({"run": "../../../home"}, r"'../../../home' is not the name of a run"),
        ({"client": 4}, "client of the request is 4"),
        ({"clients": 10**9}, "clients of the request is 1000000000"),
        ({"classes": 10**9}, "classes of the request is 1000000000"),
        ({"state_round": ROUNDS}, f"state_round of the request is {ROUNDS}"),
        ({"task": "gradient"}, "the algorithm sends no gradients before the local steps"),
        ({"run": "f" * 32}, f"the state of round {ROUNDS - 1} is not here"),
        ({"client": 2}, f"the state of round {ROUNDS - 1} is not here"),
    ],
)
def test_an_impossible_request_is_refused(nodes: Nodes, fields: dict[str, Any], reason: str):
    with pytest.raises(Refused, match=reason):
        nodes.answered(1, changed(nodes.trained(1, ROUNDS), **fields))


def test_other_records_and_fields_are_refused(nodes: Nodes):
    asked = nodes.trained(1, ROUNDS)
    for content, reason in [
        (RecordDict({**asked.content, "more": ArrayRecord()}), "the message has the records driftless, message, more"),
        (RecordDict({HEADER: asked.content[HEADER]}), "the message has the records driftless instead of"),
        (RecordDict({MESSAGE: asked.content[MESSAGE]}), "the message has the records message instead of"),
        (RecordDict({**asked.content, MESSAGE: ConfigRecord()}), "the message is missing"),
        (RecordDict({HEADER: ConfigRecord({"task": "join"})}), "does not have the fields of protocol 1"),
        (RecordDict({HEADER: ConfigRecord({"task": ["join"]})}), "does not have the fields of protocol 1"),
    ]:
        with pytest.raises(Refused, match=reason):
            nodes.answered(1, content)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_message_that_is_not_finite_is_refused(nodes: Nodes, number: float):
    asked = nodes.trained(1, ROUNDS)
    record = ArrayRecord(dict(asked.content.array_records[MESSAGE]))
    record["x"] = as_array(torch.full((15,), number))
    with pytest.raises(Refused, match=r"^the message has numbers that are not finite$"):
        nodes.answered(1, RecordDict({**asked.content, MESSAGE: record}))


def test_training_that_blows_up_leaves_the_state_as_it_was(nodes: Nodes, tmp_path: Path):
    asked, other = nodes.trained(1, ROUNDS), copy_of(nodes, tmp_path)
    before = files_of(other.states(1))
    record = ArrayRecord(dict(asked.content.array_records[MESSAGE]))
    record["x"] = as_array(torch.full((15,), 3e38))
    answer = other.answered(1, RecordDict({**asked.content, MESSAGE: record}))
    assert not torch.isfinite(torch.from_numpy(answer.array_records[UPLOAD]["delta"].numpy().copy())).all()
    assert files_of(other.states(1)) == before


def test_a_gradient_of_another_model_is_refused_where_gradients_are_asked_for(tmp_path: Path):
    nodes, _ = played(tmp_path, "mime", run__rounds=1)
    gradient = next(each for each in nodes.asked if each.request.task == "gradient")
    record = ArrayRecord({"0": as_array(torch.zeros(16))})
    with pytest.raises(Refused, match=r"^0 of the message has the shape \[16\] instead of \[15\]$"):
        nodes.answered(gradient.request.client, RecordDict({**gradient.content, MESSAGE: record}))
    train = nodes.trained(1, 1)
    with pytest.raises(Refused, match="the message has the records driftless, message instead of cohort_gradient"):
        nodes.answered(1, RecordDict({name: train.content[name] for name in (HEADER, MESSAGE)}))
    bad = ArrayRecord({"0": as_array(torch.full((15,), torch.nan))})
    with pytest.raises(Refused, match=r"^the cohort's gradient has numbers that are not finite$"):
        nodes.answered(1, RecordDict({**train.content, "cohort_gradient": bad}))


def test_a_request_is_read_as_it_was_sent(nodes: Nodes):
    asked = nodes.trained(1, ROUNDS)
    assert read_header(asked.content, Request, {MESSAGE}) == asked.request
    assert (asked.request.state_round, asked.request.oldest_round) == (ROUNDS - 1, ROUNDS - 3)
