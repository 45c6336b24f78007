from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from safetensors import safe_open

import driftless
from deploy.in_process import CLIENTS, ROUNDS, Nodes, net, played, settings
from driftless.deploy.protocol import HEADER, UPLOAD, Answer, Refusal, Request, header, read_header
from driftless.deploy.records import NUMPY, as_array
from driftless.engine.tree import named_leaves
from driftless.errors import InputError
from laws.entries import classification

BAD = 2
"""The client whose answers are bad."""
Bad = Callable[[RecordDict, Nodes], RecordDict | str]


def with_fields(**fields: Any) -> Bad:
    return lambda answer, _: RecordDict({**answer, HEADER: ConfigRecord({**answer.config_records[HEADER], **fields})})


def with_upload(**arrays: Array | None) -> Bad:
    def bad(answer: RecordDict, _: Nodes) -> RecordDict:
        given = {**answer.array_records[UPLOAD], **arrays}
        return RecordDict({**answer, UPLOAD: ArrayRecord({name: a for name, a in given.items() if a is not None})})

    return bad


def of_round(t: int, client: int = BAD) -> Bad:
    return lambda _, nodes: nodes.trained(client, t).answer


def full(value: float, size: int = 15) -> Array:
    return as_array(torch.full((size,), value))


BAD_ANSWERS: dict[str, tuple[Bad, str]] = {
    "none": (lambda *_: "no answer before the deadline", "no answer before the deadline"),
    "nothing": (lambda *_: RecordDict(), "the message has the records nothing instead of driftless, upload"),
    "an old one": (of_round(1), "the answer is to 'train' of round 1, perhaps of another run"),
    "that of another client": (of_round(5, 1), "the answer claims to be of client 1"),
    "of another run": (with_fields(run="f" * 32), "the answer is to 'train' of round 6, perhaps of another run"),
    "to another task": (with_fields(task="gradient\n"), "the answer is to 'gradient?' of round 7"),
    "of another protocol": (with_fields(protocol=2), "the message is of protocol 2, and this side has 1"),
    "other examples": (with_fields(examples=5000), "it has 5000 examples and takes 2 steps; it joined with 4"),
    "other steps": (with_fields(steps=10**9), "it has 4 examples and takes 1000000000 steps; it joined with 4"),
    "an unknown field": (with_fields(weight=1.0), "the record 'driftless' does not have the fields of protocol 1"),
    "a field of another type": (with_fields(loss="low"), "loss is of type str instead of float"),
    "a loss that is not a number": (with_fields(loss=float("nan")), "its loss is nan, not a number up to 1e+06"),
    "a huge loss": (with_fields(loss=1e30), "its loss is 1e+30, not a number up to 1e+06"),
    "an impossible accuracy": (with_fields(accuracy=1.5), "its accuracy is 1.5, not between 0 and 1"),
    "a state that was not asked for": (with_fields(state_was_lost=True), "it claims that a state was lost"),
    "a refusal": (
        lambda *_: RecordDict({HEADER: header(Refusal(1, "0" * 32, "no data\n\x1b[31m"))}),
        "the node refuses: no data??[31m",
    ),
    "a refusal with more": (
        lambda answer, _: RecordDict({**answer, HEADER: header(Refusal(1, "0" * 32, "no data"))}),
        "the message has the records driftless, upload instead of driftless",
    ),
    "an unknown record": (
        lambda answer, _: RecordDict({**answer, "more": MetricRecord({"a": 1})}),
        "the message has the records driftless, more, upload instead of driftless, upload",
    ),
    "no upload": (lambda answer, _: RecordDict({**answer, UPLOAD: MetricRecord()}), "the upload is missing"),
    "an unknown name": (with_upload(weight=full(1.0)), "the upload has unknown field weight"),
    "a missing name": (with_upload(delta=None), "the upload has no field delta"),
    "another shape": (with_upload(delta=full(0.0, 16)), "delta of the upload has the shape [16] instead of [15]"),
    "another dtype": (
        with_upload(delta=as_array(torch.zeros(15).double())),
        "delta of the upload has the dtype float64 instead of float32",
    ),
    "a header that lies": (
        with_upload(delta=Array("float32", (15,), NUMPY, full(0.0).data.replace(b"(15,)", b"(9e9)"))),
        "delta of the upload is not an array in NumPy's format",
    ),
    "cut off": (with_upload(delta=Array("float32", (15,), NUMPY, full(0.0).data[:-4])), "delta of the upload has 184"),
    "not a number": (with_upload(delta=full(torch.nan)), "the upload is not finite"),
    "infinite": (with_upload(delta=full(-torch.inf)), "the upload is not finite"),
    "huge": (with_upload(delta=full(-1e30)), "the upload has a number of 1e+30, beyond 1e+06"),
}


def same_bits(one: Any, other: Any) -> bool:
    return all(torch.equal(one.state[name], other.state[name]) for name in one.state)


Run = tuple[Nodes, Any]


@pytest.fixture(scope="module")
def bad_answers(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which a client answers well in round 1, and then badly in a new way every round."""
    folder, kinds = tmp_path_factory.mktemp("bad"), list(BAD_ANSWERS.values())
    nodes = Nodes(folder, settings(folder, run__rounds=1 + len(kinds)))

    def change(request: Request, answer: RecordDict) -> RecordDict | str:
        return kinds[request.round - 2][0](answer, nodes) if request.client == BAD and request.round > 1 else answer

    nodes.change = change
    return nodes, nodes.play()


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_a_bad_answer_leaves_its_client_out_and_is_named(what: str, bad_answers: Run):
    _, stored = bad_answers
    t = list(BAD_ANSWERS).index(what) + 2
    (event,) = [event for event in stored.events if event["round"] == t]
    assert event["clients"] == [BAD]
    assert event["what"].startswith(BAD_ANSWERS[what][1])
    assert event["what"].endswith(": left out of the round")
    assert stored.rows[t - 1]["skipped"] == 1


def test_bad_answers_have_no_effect_and_the_run_goes_on(bad_answers: Run, tmp_path: Path):
    nodes, stored = bad_answers
    rounds = 1 + len(BAD_ANSWERS)
    assert stored.result["status"] == "finished"
    assert len(stored.rows) == rounds
    assert {nodes.trained(BAD, t).request.state_round for t in range(2, rounds + 1)} == {1}  # as if they had not been

    def missing(request: Request, answer: RecordDict) -> RecordDict | str:
        return "not connected" if request.client == BAD and request.round > 1 else answer

    _, without = played(tmp_path, change=missing, run__rounds=rounds)
    assert same_bits(stored, without)
    kept = [path.stem for path in nodes.states(BAD).rglob("*.safetensors")]
    assert "round-00000001" in kept
    assert len(kept) <= 5


@pytest.mark.parametrize("name", ["scaffold", "adabest", "mime", "fedavg"])
def test_the_run_on_nodes_has_the_bits_of_the_simulation_of_one_client_after_the_other(name: str, tmp_path: Path):
    _, stored = played(tmp_path, name, run__cohort=3)
    federation = driftless.Federation.from_clients(
        [classification().client(i) for i in range(CLIENTS)], test=classification().client(6), classes=3
    )
    local = driftless.LocalTraining(lr=0.1, epochs=1, batch_size=3)
    run = driftless.run(
        name, federation, net, rounds=ROUNDS, cohort=3, seed=5, local=local, output=tmp_path / "sim", engine="single"
    )
    assert stored.events == []
    assert same_bits(stored, run)


def test_bad_gradients_leave_their_client_out_before_the_local_steps(tmp_path: Path):
    def change(request: Request, answer: RecordDict) -> RecordDict | str:
        if (request.task, request.client, request.round) != ("gradient", BAD, 2):
            return answer
        return RecordDict({**answer, "gradient": ArrayRecord({"0": full(1e30)})})

    nodes, stored = played(tmp_path, "mime", change)
    (event,) = stored.events
    assert event == {
        "round": 2,
        "what": "the gradient has a number of 1e+30, beyond 1e+06: left out of the round",
        "clients": [BAD],
    }
    asked = [each.request for each in nodes.asked if each.request.round == 2]
    assert [each.client for each in asked if each.task == "train"] == [0, 1, 3]


def test_a_round_without_any_answer_is_lost_and_the_run_goes_on(tmp_path: Path):
    _, stored = played(tmp_path, change=lambda request, answer: "not connected" if request.round == 2 else answer)
    assert [event["what"] for event in stored.events] == [
        "not connected: left out of the round",
        "round lost: no finite result, server state kept as it was",
    ]
    assert len(stored.rows) == ROUNDS


class Killed(BaseException):
    """The server ends at once."""


@pytest.mark.parametrize("late", [False, True])
def test_a_server_that_goes_back_gets_the_same_uploads(tmp_path: Path, late: bool):
    """After a kill in round 5: to the last checkpoint, or, when that is damaged, to the one before."""

    def too_late(request: Request, answer: RecordDict) -> RecordDict | str:
        return "too late" if late and request.client == BAD and request.round in (2, 3) else answer

    _, whole = played(tmp_path / "whole", change=too_late, run__rounds=6)
    nodes = Nodes(tmp_path, settings(tmp_path, run__rounds=6))

    def killed(request: Request, answer: RecordDict) -> RecordDict | str:
        if request.round == 5 and request.client == CLIENTS - 1:
            raise Killed
        return too_late(request, answer)

    nodes.change = killed
    with pytest.raises(Killed):
        nodes.play()
    before = {(each.request.client, each.request.round): each for each in nodes.asked if each.request.round}
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    for back in (0, 1):
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(tmp_path / "killed", tmp_path / "run")
        if back:
            sorted((tmp_path / "run" / "checkpoint").glob("manifest-*.json"))[-1].write_text("damaged")
        nodes.asked, nodes.change = [], too_late
        stored = nodes.play()
        assert min(each.request.round for each in nodes.asked) == 5 - back
        for each in nodes.asked:
            if old := before.get((each.request.client, each.request.round)):
                assert each.answer.array_records[UPLOAD] == old.answer.array_records[UPLOAD]
        assert [event["what"] for event in stored.events] == ["too late: left out of the round"] * (2 * late)
        assert same_bits(stored, whole)


def test_a_node_whose_disk_was_lost_is_left_out_and_named(tmp_path: Path):
    nodes = Nodes(tmp_path, settings(tmp_path))
    nodes.change = losing(nodes)
    stored = nodes.play()
    assert [(event["round"], event["clients"]) for event in stored.events] == [(3, [BAD]), (4, [BAD])]
    assert "the node refuses: the state of round 2 is not here; its disk may have been" in stored.events[0]["what"]
    assert stored.result is not None
    assert stored.result["status"] == "finished"


def losing(nodes: Nodes) -> Callable[[Request, RecordDict], RecordDict]:
    """A client whose disk is empty after round 2."""

    def change(request: Request, answer: RecordDict) -> RecordDict:
        if (request.client, request.round) == (BAD, 2):
            shutil.rmtree(nodes.states(BAD))
        return answer

    return change


def test_a_node_whose_disk_was_lost_begins_anew_if_the_settings_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    nodes = Nodes(tmp_path, settings(tmp_path, deploy__reset_lost_state=True))
    nodes.change = losing(nodes)
    with caplog.at_level("WARNING", "flwr"):
        stored = nodes.play()
    assert stored.events == []
    lost = [read_header(nodes.trained(BAD, t).answer, Answer, {UPLOAD}).state_was_lost for t in range(1, ROUNDS + 1)]
    assert lost == [False, False, True, False]
    assert "round 3: client 2 began anew, its state was lost." in caplog.text


def test_nodes_keep_no_more_states_than_the_server_can_name(tmp_path: Path):
    for every, most in ((1, 4), (0, 2)):
        nodes, _ = played(tmp_path / str(every), run__rounds=8, run__checkpoint_every=every)
        assert len(list(nodes.states(1).rglob("*.safetensors"))) == most


def test_states_of_an_upload_have_the_names_that_the_algorithm_gives_them(tmp_path: Path):
    nodes, _ = played(tmp_path, "adabest", run__rounds=1)
    algorithm = driftless.algorithms.AdaBest()
    names = [name for name, _ in named_leaves(algorithm.init_client(torch.zeros(15)))]
    (path,) = nodes.states(1).rglob("*.safetensors")
    with safe_open(path, "pt") as file:
        assert sorted(file.keys()) == sorted(names)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"inputs": '{"dict": [1]}'}, "is not the name, dtype and shape"),
        ({"classes": 10**9}, "classes"),
        ({"run": "f" * 32}, "another run"),
    ],
)
def test_a_node_that_cannot_join_is_named(
    tmp_path: Path, change: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
):
    nodes = Nodes(tmp_path, settings(tmp_path, deploy__join_timeout=0.01))
    nodes.change = lambda request, answer: with_fields(**change)(answer, nodes) if request.task == "join" else answer
    with caplog.at_level("WARNING", "flwr"), pytest.raises(InputError, match="0 of 4 nodes have joined"):
        nodes.play()
    assert "Node 100 cannot take part" in caplog.text
    assert reason in caplog.text
