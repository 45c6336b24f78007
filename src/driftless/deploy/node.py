"""What a node does with a request: `init_local`, `direction` and `upload` of the algorithm, on its own data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import ConfigRecord, RecordDict
from torch import Tensor

from driftless.algorithm import Facts, OnRequest, Vector
from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, named_inputs
from driftless.deploy.facts import check_facts, facts_of
from driftless.deploy.node_state import StateFiles
from driftless.deploy.protocol import (
    ASK_GRADIENT,
    COHORT_GRADIENT,
    GRADIENT,
    HEADER,
    JOIN,
    MESSAGE,
    PROTOCOL,
    TRAIN,
    UPLOAD,
    Answer,
    Joined,
    Request,
    check_request,
    header,
    read_header,
)
from driftless.deploy.records import packed, unpacked
from driftless.deploy.refusal import Refused
from driftless.engine.batches import check_steps
from driftless.engine.local import Trained
from driftless.engine.minibatches import Block, Workload, block_of
from driftless.engine.model_fit import check_fit
from driftless.engine.round import round_facts
from driftless.engine.single import SingleTrainer
from driftless.engine.sums import finite_rows
from driftless.engine.tree import leaves, map_leaves


class Place(NamedTuple):
    """Of a node."""

    node: int
    """Its id in Flower, which belongs to its key."""
    folder: Path
    """Where it keeps the states of its client."""
    client: int
    """The number that it asks for; -1: any."""


def joined(content: RecordDict, pair: Any, place: Place) -> RecordDict:
    """The answer to `join`."""
    request = read_header(content, Request)
    federation = Federation.from_clients([pair])
    answer = Joined(
        PROTOCOL, request.run, place.client, len(federation.targets), json.dumps(kind_of(federation.inputs)),
        json.dumps(kind_of(federation.targets)), federation.classes or 0,
    )  # fmt: skip
    return RecordDict({HEADER: header(answer)})


def kind_of(values: Inputs) -> Any:
    """Dtype and shape of an example; of several inputs by their names."""
    if isinstance(values, Tensor):
        return [str(values.dtype).removeprefix("torch."), list(values.shape[1:])]
    return {
        "tuple" if isinstance(values, tuple) else "dict": [
            [name, *kind_of(part)] for name, part in named_inputs(values).items()
        ]
    }


def federation_of(pair: Any, request: Request) -> Federation:
    """All clients, of which only this one has examples here: random streams are keyed by the client's number."""
    own = Federation.from_clients([pair], classes=request.classes or None)
    offsets = np.zeros(request.clients + 1, dtype=np.int64)
    offsets[request.client + 1 :] = len(own.targets)
    return replace(own, offsets=offsets)


class Node:
    """Ready for one request."""

    def __init__(self, work: Workload, place: Place) -> None:
        self._work, self._place = work, place
        self._trainer = SingleTrainer(work)

    def answer(self, content: RecordDict) -> RecordDict:
        request = self._request(content)
        x = self._work.model.initial
        if request.task == ASK_GRADIENT:
            x = unpacked(content[MESSAGE], (x,), "the message")[0].to(x.device)
            check_finite(x, "the message")
            gradient = self._trainer.gradients(self._block(request, x), x)[0]
            return RecordDict({HEADER: header(self._answer(request)), GRADIENT: packed((gradient,))})
        algorithm = self._work.algorithm
        like = algorithm.broadcast(algorithm.init_server(x, Facts(self._work.model.layers, request.clients)))
        msg = map_leaves(lambda leaf: leaf.to(x.device), unpacked(content[MESSAGE], like, "the message"))
        check_finite(msg, "the message")
        cohort_gradient: OnRequest = None
        if algorithm.full_gradient == "before":
            cohort_gradient = unpacked(content[COHORT_GRADIENT], (x,), "the cohort's gradient")[0].to(x.device)
            check_finite(cohort_gradient, "the cohort's gradient")
        trained, lost = self._train(request, msg, cohort_gradient)
        answer = self._answer(request)._replace(
            loss=number_of(trained.loss), accuracy=number_of(trained.accuracy), state_was_lost=lost
        )
        upload = map_leaves(lambda leaf: leaf[0], trained.upload)
        return RecordDict({HEADER: header(answer), UPLOAD: packed(upload)})

    def _request(self, content: RecordDict) -> Request:
        before = self._work.algorithm.full_gradient == "before"
        task = task_of(content)
        request = read_header(content, Request, {MESSAGE, COHORT_GRADIENT} if before and task == TRAIN else {MESSAGE})
        check_request(request)
        check_facts(request.facts, facts_of(self._work))
        if request.task == ASK_GRADIENT and not before:
            raise Refused("the algorithm sends no gradients before the local steps")
        return request

    def _train(self, request: Request, msg: Any, cohort_gradient: OnRequest) -> tuple[Trained, bool]:
        """Local training from the state that the server names; the new state is written before it is uploaded."""
        files = StateFiles(self._place.folder, owner_of(request, self._place, self._work))
        initial = self._work.algorithm.init_client(msg.x)
        state = files.read(request.state_round, initial)
        lost = state is None
        if lost and not request.reset_lost_state:
            raise Refused(f"the state of round {request.state_round} is not here; its disk may have been replaced")
        if lost and files.begun_with(request.round) == request.state_round:
            raise Refused(f"round {request.round} was answered before, and the state that it began with was removed")
        state = map_leaves(lambda leaf: leaf.to(msg.x.device)[None], initial if lost else state)
        block = self._block(request, msg.x)
        gradient = self._trainer.gradients(block, msg.x) if self._work.algorithm.full_gradient == "before" else None
        r = round_facts(self._work, msg.x, request.round, request.cohort, block.steps, block.examples)
        r = r._replace(gradient=gradient, cohort_gradient=cohort_gradient)
        trained = self._trainer.train(block, msg, state, r)
        if bool(finite_rows((trained.upload, trained.client)).all()):
            begun_with = 0 if lost else request.state_round
            files.write(request.round, map_leaves(lambda leaf: leaf[0], trained.client), begun_with)
            files.remove_before(request.oldest_round, request.state_round)
        return trained, lost

    def _block(self, request: Request, x: Vector) -> Block:
        return block_of(self._work, np.array([request.client]), request.round, x)

    def _answer(self, request: Request) -> Answer:
        block = self._block(request, self._work.model.initial)
        return Answer(
            PROTOCOL, request.task, request.run, request.round, request.client, int(block.examples), int(block.steps),
            math.nan, math.nan, False,
        )  # fmt: skip


def task_of(content: RecordDict) -> str:
    """Before the rest is checked: which records a request must have depends on it."""
    record = content.get(HEADER)
    task = record.get("task") if isinstance(record, ConfigRecord) else None
    return task if isinstance(task, str) else ""


def is_join(content: RecordDict) -> bool:
    return task_of(content) == JOIN


def owner_of(request: Request, place: Place, work: Workload) -> dict[str, str]:
    return {
        "run": request.run, "client": str(request.client), "node": str(place.node),
        "algorithm": type(work.algorithm).__name__, "protocol": str(PROTOCOL),
    }  # fmt: skip


def check_work(work: Workload, client: int) -> None:
    """Of the user's own data and model, in words that a user understands."""
    check_steps(work.training, work.federation.sizes[[client]])
    check_fit(work.model, work.federation, work.loss)


def check_finite(tree: Any, what: str) -> None:
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves(tree) if leaf.dim()):
        raise Refused(f"{what} has numbers that are not finite")


def number_of(value: Tensor) -> float:
    return float(value.flatten()[0])
