from __future__ import annotations

from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from driftless.deploy.protocol import (
    HEADER,
    MESSAGE,
    Answer,
    Joined,
    Refusal,
    Request,
    check_request,
    header,
    read_header,
    read_json,
)
from driftless.deploy.refusal import Refused

RUN = "0123456789abcdef" * 2
REQUEST = Request(1, "train", "{}", RUN, 7, 2, 4, 3, 5, 4, 10, False)
ANSWER = Answer(1, "train", RUN, 7, 2, 30, 6, 0.5, float("nan"), False)
JOINED = Joined(1, RUN, -1, 30, '["float32", [4]]', '["int64", []]', 10)
REFUSAL = Refusal(1, RUN, "no data")


def content_of(record: Any, **others: Any) -> RecordDict:
    return RecordDict({HEADER: record, **others})


def with_field(name: str, value: Any) -> RecordDict:
    return content_of(ConfigRecord({**REQUEST._asdict(), name: value}))


@pytest.mark.parametrize("fields", [REQUEST, ANSWER, JOINED, REFUSAL])
def test_fields_come_back_as_they_were_sent(fields: Any):
    assert repr(read_header(content_of(header(fields)), type(fields))) == repr(fields)


def test_records_must_be_those_expected():
    for content, given in [
        (RecordDict(), "nothing"),
        (content_of(header(REQUEST)), "driftless"),
        (content_of(header(REQUEST), message=ArrayRecord(), upload=ArrayRecord()), "driftless, message, upload"),
        (RecordDict({MESSAGE: ArrayRecord()}), "message"),
    ]:
        with pytest.raises(Refused, match=f"^the message has the records {given} instead of driftless, message$"):
            read_header(content, Request, {MESSAGE})


@pytest.mark.parametrize(
    "record",
    [
        ArrayRecord(),
        MetricRecord(dict.fromkeys(Request._fields, 1)),
        ConfigRecord(),
        ConfigRecord({**REQUEST._asdict(), "more": 1}),
        ConfigRecord({name: value for name, value in REQUEST._asdict().items() if name != "round"}),
        header(ANSWER),
    ],
)
def test_unknown_and_missing_fields_are_refused(record: Any):
    with pytest.raises(Refused, match=r"^the record 'driftless' does not have the fields of protocol 1$"):
        read_header(content_of(record), Request)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("round", "7", "round is of type str instead of int"),
        ("round", True, "round is of type bool instead of int"),
        ("round", 7.0, "round is of type float instead of int"),
        ("round", [7], "round is of type list instead of int"),
        ("task", b"train", "task is of type bytes instead of str"),
        ("reset_lost_state", 1, "reset_lost_state is of type int instead of bool"),
        ("round", 10**9 + 1, "round is 1000000001, which is not between -1 and 1000000000"),
        ("round", -2, "round is -2, which is not between"),
        pytest.param("round", 10**5000, "round is a value of type int that is too large to show, which", id="huge"),
        ("facts", "x" * 4001, "facts has 4001 characters; at most 4000 are allowed"),
        ("protocol", 2, "the message is of protocol 2, and this side has 1"),
        ("run", "../../etc", "'../../etc' is not the name of a run"),
        ("run", RUN.upper(), f"'{RUN.upper()}' is not the name of a run"),
        ("run", RUN + "\n", "is not the name of a run"),
    ],
)
def test_a_field_that_is_not_as_it_must_be_is_refused_and_named(name: str, value: Any, reason: str):
    with pytest.raises(Refused, match=reason):
        read_header(with_field(name, value), Request)


def test_a_request_whose_numbers_fit_together_is_accepted():
    check_request(REQUEST)
    check_request(REQUEST._replace(round=1, state_round=0, oldest_round=0, client=0, clients=1, cohort=1, classes=0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", "delete"), ("task", "join"), ("round", 0), ("round", -1), ("client", 4), ("client", -1),
        ("clients", 0), ("clients", 10**6 + 1), ("cohort", 0), ("cohort", 5), ("state_round", 7), ("state_round", -1),
        ("oldest_round", 7), ("oldest_round", -1), ("classes", -1), ("classes", 10**6 + 1),
    ],
)  # fmt: skip
def test_a_request_with_an_impossible_number_is_refused_and_the_number_named(name: str, value: Any):
    with pytest.raises(Refused, match=f"^{name} of the request is {value}, which is not possible here$"):
        check_request(REQUEST._replace(**{name: value}))


def test_text_that_is_not_json_is_refused():
    assert read_json('{"a": [1]}', "it") == {"a": [1]}
    for text in ("", "{", "[" * 3000, "nothing"):
        with pytest.raises(Refused, match=r"^it is not JSON$"):
            read_json(text, "it")
