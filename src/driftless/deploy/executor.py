"""A round on real nodes: an Executor of the engine, so that the rest of the loop is the simulator's own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from flwr.app import ArrayRecord, RecordDict
from torch import Tensor

from driftless.algorithm import Message, OnRequest, Upload, Vector
from driftless.deploy.facts import facts_of
from driftless.deploy.protocol import (
    ASK_GRADIENT,
    COHORT_GRADIENT,
    GRADIENT,
    HEADER,
    MESSAGE,
    PROTOCOL,
    TRAIN,
    UPLOAD,
    Answer,
    Refusal,
    Request,
    header,
    read_header,
)
from driftless.deploy.records import packed, short, unpacked
from driftless.deploy.refusal import Refused
from driftless.deploy.roster import Roster
from driftless.deploy.settings import Deployment
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import Evaluated, Evaluation
from driftless.engine.example_upload import example_upload
from driftless.engine.local import Trained
from driftless.engine.minibatches import Block, block_of
from driftless.engine.round import (
    GradientSum,
    InProcess,
    RoundPlan,
    gradient_sum,
    mean_gradient,
    received,
    split_cohort,
)
from driftless.engine.sums import BlockSums, add
from driftless.engine.tree import Tree, leaves, map_leaves, stack
from driftless.runs.checkpoint import KEPT

log = logging.getLogger("flwr")
Found = TypeVar("Found")
LARGEST_COUNT = 1e9
"""Of numbers that are not vectors, such as a client's examples."""


class Transport(Protocol):
    """How requests reach nodes: flower.py."""

    def ask(self, requests: Mapping[int, RecordDict], round: int, seconds: float) -> Mapping[int, RecordDict | str]:
        """By node, its answer, or why there is none; a node that is not named did not answer in time."""
        ...


def filtered(parts: Sequence[Sequence[int]], found: Container[int]) -> list[list[int]]:
    """Of each part, those that are among `found`."""
    return [[client for client in part if client in found] for part in parts]


class Update(NamedTuple):
    """What a client has sent, checked."""

    upload: Upload
    answer: Answer


class Nodes:
    """An Executor whose clients are nodes. The server keeps of a client only when its last upload was accepted."""

    def __init__(
        self, transport: Transport, roster: Roster, settings: Deployment, plan: RoundPlan, store: ClientStore,
        evaluation: Evaluation, checkpoint_every: int,
    ) -> None:  # fmt: skip
        self.reasons: dict[int, str] = {}
        self._transport, self._roster, self._settings = transport, roster, settings
        self._plan, self._store = plan, store
        self._here = InProcess(plan, store, evaluation)
        self._checkpoint_every = checkpoint_every
        self._facts = facts_of(plan.work)
        self._arrived: tuple[int, list[int]] = (0, [])
        self._upload = example_upload(plan.work)
        """The names, shapes and dtypes that an upload must have."""

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        self.reasons = {}
        parts, work = [part.tolist() for part in split_cohort(self._plan, cohort, t)], self._plan.work
        clients, cohort_gradient = [client for part in parts for client in part], None
        if work.algorithm.full_gradient == "before":
            gradients = self._ask(ASK_GRADIENT, {MESSAGE: packed((msg.x,))}, clients, len(cohort), t, self._gradient)
            clients = [client for client in clients if client in gradients]
            if clients:
                sums = [self._gradient_sum(kept, gradients, t, msg.x) for kept in filtered(parts, gradients) if kept]
                cohort_gradient = mean_gradient(self._plan, sums)
        records = {MESSAGE: packed(msg)}
        if cohort_gradient is not None:
            records[COHORT_GRADIENT] = packed((cohort_gradient,))
        updates = self._ask(TRAIN, records, clients, len(cohort), t, self._update) if clients else {}
        self._arrived = t, [client for client in clients if client in updates]
        total = None
        for part, kept in zip(parts, filtered(parts, updates), strict=True):  # as `single` sums them: the same bits
            arrived = torch.tensor([client in updates for client in part], device=msg.x.device)
            trained = self._trained([updates[client] for client in kept], msg.x)
            total = add(total, received(self._plan, self._block(kept, t, msg.x), trained, arrived))
        assert total is not None
        return total, cohort_gradient

    def _gradient_sum(self, clients: list[int], gradients: Mapping[int, Tensor], t: int, x: Vector) -> GradientSum:
        rows = torch.stack([gradients[client] for client in clients])
        return gradient_sum(self._plan, self._block(clients, t, x), rows)

    def accept(self) -> list[tuple[list[int], Tensor]]:
        t, clients = self._arrived
        self._store.put(clients, (torch.full((len(clients),), t),))
        return []

    def evaluate(self, x: Vector, t: int, cohort: np.ndarray | None = None) -> Evaluated:
        assert cohort is None  # simulation_of_nodes refuses evaluate.cohort
        return self._here.evaluate(x, t)

    def _ask(
        self, task: str, records: dict[str, ArrayRecord], clients: list[int], cohort: int, t: int,
        read: Callable[[RecordDict, Request], Found],
    ) -> dict[int, Found]:  # fmt: skip
        """What `read` finds in the answers; why a client has none is noted."""
        requests = {client: self._request(task, client, cohort, t) for client in clients}
        nodes = self._roster.nodes
        contents = {nodes[c]: RecordDict({HEADER: header(r), **records}) for c, r in requests.items()}
        answers = self._transport.ask(contents, t, self._settings.deadline)
        found: dict[int, Found] = {}
        for client, request in requests.items():
            content = answers.get(nodes[client], "no answer before the deadline")
            try:
                if isinstance(content, str):
                    raise Refused(content)
                refuse_refusal(content)
                found[client] = read(content, request)
            except Refused as reason:
                self.reasons[client] = f"{reason}: left out of the round"
        return found

    def _request(self, task: str, client: int, cohort: int, t: int) -> Request:
        (accepted,) = self._store.get([client], (torch.zeros((), dtype=torch.int64),))
        oldest = max(0, t - 1 - KEPT * self._checkpoint_every) if self._checkpoint_every else t - 1
        return Request(
            PROTOCOL, task, self._facts, self._roster.run, t, client, len(self._roster.members), cohort, int(accepted),
            oldest, self._plan.work.federation.classes or 0, self._settings.reset_lost_state,
        )  # fmt: skip

    def _update(self, content: RecordDict, request: Request) -> Update:
        answer = self._answer(content, request, UPLOAD)
        upload = unpacked(content[UPLOAD], self._upload, "the upload")
        check_numbers(upload, self._settings.largest_value, "the upload")
        check_metrics(answer, self._settings.largest_value)
        if answer.state_was_lost:
            if not (request.reset_lost_state and request.state_round):
                raise Refused("it claims that a state was lost that it was not asked for")
            log.warning("round %d: client %d began anew, its state was lost.", request.round, request.client)
        return Update(upload, answer)

    def _gradient(self, content: RecordDict, request: Request) -> Vector:
        self._answer(content, request, GRADIENT)
        x = self._plan.work.model.initial
        (gradient,) = unpacked(content[GRADIENT], (x,), "the gradient")
        check_numbers(gradient, self._settings.largest_value, "the gradient")
        return gradient.to(x)

    def _answer(self, content: RecordDict, request: Request, record: str) -> Answer:
        answer = read_header(content, Answer, {record})
        if (answer.task, answer.run, answer.round) != (request.task, request.run, request.round):
            raise Refused(f"the answer is to '{short(answer.task)}' of round {answer.round}, perhaps of another run")
        if answer.client != request.client:
            raise Refused(f"the answer claims to be of client {answer.client}")
        block = self._block([request.client], request.round, self._plan.work.model.initial)
        known = int(block.examples), int(block.steps)
        if (answer.examples, answer.steps) != known:
            raise Refused(
                f"it has {answer.examples} examples and takes {answer.steps} steps; it joined with {known[0]}, which "
                f"makes {known[1]}"
            )
        return answer

    def _block(self, clients: list[int], t: int, x: Vector) -> Block:
        return block_of(self._plan.work, np.array(clients, dtype=np.int64), t, x)

    def _trained(self, updates: list[Update], x: Vector) -> Trained:
        """As after local training of a block, without what stays on the nodes: models and states."""
        loss = x.new_tensor([update.answer.loss for update in updates])
        accuracy = x.new_tensor([update.answer.accuracy for update in updates])
        return Trained(x.new_empty(len(updates), 0), self._stacked(updates, x), (), loss, accuracy)

    def _stacked(self, updates: list[Update], x: Vector) -> Tree:
        if not updates:
            return map_leaves(lambda leaf: torch.zeros(0, *leaf.shape, dtype=leaf.dtype, device=x.device), self._upload)
        return map_leaves(lambda leaf: leaf.to(x.device), stack([update.upload for update in updates]))


def refuse_refusal(content: RecordDict) -> None:
    """A node that says why it cannot."""
    record: Any = content.get(HEADER)
    if hasattr(record, "keys") and set(record) == set(Refusal._fields):
        raise Refused(f"the node refuses: {short(read_header(content, Refusal).refused, 300)}")


def check_numbers(tree: Tree, largest: float, what: str) -> None:
    for leaf in leaves(tree):
        if not bool(torch.isfinite(leaf).all()):
            raise Refused(f"{what} is not finite")
        most = largest if leaf.dim() else max(largest, LARGEST_COUNT)
        if leaf.numel() and (found := float(leaf.abs().max())) > most:
            raise Refused(f"{what} has a number of {found:.3g}, beyond {most:g}")


def check_metrics(answer: Answer, largest: float) -> None:
    """A false loss would make the run look as if it had diverged."""
    if not abs(answer.loss) <= largest:
        raise Refused(f"its loss is {answer.loss:.3g}, not a number up to {largest:g}")
    if not (math.isnan(answer.accuracy) or 0 <= answer.accuracy <= 1):
        raise Refused(f"its accuracy is {answer.accuracy:.3g}, not between 0 and 1")
