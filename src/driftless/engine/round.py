"""One round: broadcast -> blocks -> weighted sums -> update. Robust aggregation also has the uploads themselves.

Blocks are summed in block order, so neither the order of the cohort nor which process computed a block changes the
result. A round is a transaction: client states are written only when the server has accepted the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Client, Message, OnRequest, Round, Server, Upload, Vector
from driftless.engine.aggregation import Aggregated, Aggregation, joined
from driftless.engine.attacks import Attack, attacked, attacked_vectors
from driftless.engine.batches import steps_of
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import Evaluated, Evaluation, evaluate_batches, evaluated
from driftless.engine.example_upload import example_upload
from driftless.engine.local import Trained
from driftless.engine.minibatches import Block, Workload, block_of
from driftless.engine.sums import (
    BlockSums,
    UploadRows,
    add,
    finite_rows,
    means_of,
    row_of,
    rows_of,
    sums_of,
    weights_of,
)
from driftless.engine.tree import Tree, leaves, map_leaves


class Trainer(Protocol):
    """Trains the clients of a block: single.py or block.py."""

    @property
    def work(self) -> Workload: ...

    def gradients(self, block: Block, x: Vector) -> Tensor: ...

    def train(self, block: Block, msg: Message, states: Client, r: Round) -> Trained: ...


@dataclass(frozen=True)
class RoundPlan:
    """How the rounds of a run are computed."""

    trainer: Trainer
    weighting: str
    block_size: int
    keep_models: bool
    """Whether the clients' models are needed after the round (inference = clients)."""
    aggregation: Aggregation
    attack: Attack | None = None
    """On what the clients send."""

    @property
    def work(self) -> Workload:
        return self.trainer.work


class NewStates(NamedTuple):
    """Of a block that has been trained, to be written if the server accepts the round."""

    clients: list[int]
    """Without those whose update is not finite."""
    states: Client
    models: Tensor
    """[clients, P] if they are kept, else empty."""


class RoundResult(NamedTuple):
    server: Server | None
    """None when the round is lost: no client, or not the server, came to a finite result."""
    aggregate: Vector | None
    """Mean of the client models as far as the server can know it."""
    row: dict[str, float]
    left_out: dict[int, str]
    """Clients of the cohort that did not arrive, and why."""
    too_few: str = ""
    """Why the clients that arrived were too few for the aggregation."""


NOT_FINITE = "update not finite: left out of the round, state kept as it was"


class Executor(Protocol):
    """Trains the blocks of a round: in this process (below), in several (cluster.py), or on nodes (deploy)."""

    @property
    def reasons(self) -> Mapping[int, str]:
        """Why clients of the last round did not arrive; of those not named here, the update was not finite."""
        ...

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        """The sums over the cohort, and the cohort's mean full-batch gradient if the algorithm asks for it."""
        ...

    def accept(self) -> list[tuple[list[int], Tensor]]:
        """Write the new states of the clients that were trained last; returns their models if these are kept."""
        ...

    def evaluate(self, x: Vector, t: int, cohort: np.ndarray | None = None) -> Evaluated:
        """Losses, accuracies and metrics of the model after round t.

        With `cohort`: of the model that round t sends to these clients, on their training examples.
        """
        ...


def play_round(
    plan: RoundPlan, algorithm: Algorithm, server: Server, executor: Executor, cohort: np.ndarray, t: int,
    answerless: int = 0,
) -> RoundResult:  # fmt: skip
    """`algorithm` is the run's, with the server learning rate of this round.

    `answerless`: the number of clients that are sent the message, too, and lost before they answer.
    """
    msg = algorithm.broadcast(server)
    in_vain = answerless * size_in_bytes(msg)
    if not len(cohort):
        empty = play_empty_round(plan, algorithm, server, msg, t)
        return empty._replace(row=empty.row | {"bytes_down": in_vain, "bytes_up": 0})
    total, cohort_gradient = executor.train(msg, cohort, t)
    row = traffic(msg, total.uploads, len(cohort), algorithm)
    row["bytes_down"] += in_vain
    missing = np.concatenate(split_cohort(plan, cohort, t))[~total.arrived.cpu().numpy()].tolist()
    left_out = {client: executor.reasons.get(client, NOT_FINITE) for client in missing}
    if total.number == 0:
        empty = play_empty_round(plan, algorithm, server, msg, t)
        return empty._replace(row=row | empty.row, left_out=left_out)
    if too_few := plan.aggregation.too_few(total.number):
        return RoundResult(None, None, row, left_out, too_few)
    plain, metrics = means_of(total, algorithm.uniform)
    mean, about = aggregated(plan, total, plain)
    r = round_facts(plan.work, msg.x, t, total.number, metrics.steps, metrics.examples)
    result = updated(algorithm, server, msg, mean, r._replace(cohort_gradient=cohort_gradient))
    measured = row_of(total, plain, metrics, mean) | about if result.server is not None else {}
    return result._replace(row=row | measured | result.row, left_out=left_out)


def updated(algorithm: Algorithm, server: Server, msg: Message, mean: Upload, r: Round) -> RoundResult:
    """The server's step; its row has what the algorithm itself records."""
    new_server = algorithm.update(server, mean, r)
    # Numbers that are not vectors may be infinite on purpose: "the lowest so far" before there is one.
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves(new_server) if leaf.dim()):
        return RoundResult(None, None, {}, {})
    own = {name: float(value) for name, value in algorithm.diagnostics(new_server, mean).items()}
    return RoundResult(new_server, msg.x + mean.delta, own, {})


def play_empty_round(plan: RoundPlan, algorithm: Algorithm, server: Server, msg: Message, t: int) -> RoundResult:
    """A round to which no client was drawn, or from which none arrived: nothing changes, unless `update` says so."""
    if algorithm.needs_clients:
        return RoundResult(None, None, {}, {})
    one = torch.ones_like(msg.x[0])
    zeros = map_leaves(torch.zeros_like, example_upload(plan.work))
    return updated(algorithm, server, msg, zeros, round_facts(plan.work, msg.x, t, 0, one, one))


def aggregated(plan: RoundPlan, total: BlockSums, mean: Upload) -> Aggregated:
    """What the server gets of the uploads: their mean, unless another rule was chosen."""
    if not plan.aggregation.needs_all_uploads:
        return Aggregated(mean, {})
    return plan.aggregation.of(joined(total.rows, total.arrived), plan.work.algorithm.uniform)


def round_facts(work: Workload, x: Vector, t: int, cohort: int, steps: Tensor, examples: Tensor) -> Round:
    """`steps` and `examples`: means over the cohort for the server, a number for each client of a block."""
    lr = x.new_tensor(work.training.lr_at(t))
    return Round(x.new_tensor(t), lr, steps, examples, cohort, work.federation.clients, work.model.layers)


class InProcess:
    """All blocks in this process, one after the other."""

    reasons: Mapping[int, str] = MappingProxyType({})

    def __init__(self, plan: RoundPlan, store: ClientStore, evaluation: Evaluation) -> None:
        self._plan, self._store, self._evaluation = plan, store, evaluation
        self._trained: list[NewStates] = []

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        plan = self._plan
        blocks = blocks_of(plan, cohort, t, msg.x)
        gradients: list[Tensor | None] = [None] * len(blocks)
        cohort_gradient: OnRequest = None
        if plan.work.algorithm.full_gradient == "before":
            of_blocks = [plan.trainer.gradients(block, msg.x) for block in blocks]
            sums = [gradient_sum(plan, block, g) for block, g in zip(blocks, of_blocks, strict=True)]
            gradients, cohort_gradient = [*of_blocks], mean_gradient(plan, sums)
        total, self._trained = None, []
        for block, gradient in zip(blocks, gradients, strict=True):
            r = round_facts(plan.work, msg.x, t, len(cohort), block.steps, block.examples)
            r = r._replace(gradient=gradient, cohort_gradient=cohort_gradient)
            sums, states = train_block(plan, block, msg, self._store, r)
            total = add(total, sums)
            self._trained.append(states)
        assert total is not None
        return total, cohort_gradient

    def accept(self) -> list[tuple[list[int], Tensor]]:
        write_states(self._store, self._trained)
        return [(block.clients, block.models) for block in self._trained] if self._plan.keep_models else []

    def evaluate(self, x: Vector, t: int, cohort: np.ndarray | None = None) -> Evaluated:
        of = self._evaluation if cohort is None else self._evaluation.of_cohort(cohort)
        return evaluated(of, evaluate_batches(of, x, t, range(len(of.batches()))), t)


def blocks_of(plan: RoundPlan, cohort: np.ndarray, t: int, x: Vector) -> list[Block]:
    """The cohort in blocks; numbers are of the type and device of x."""
    return [block_of(plan.work, clients, t, x) for clients in split_cohort(plan, cohort, t)]


def split_cohort(plan: RoundPlan, cohort: np.ndarray, t: int) -> list[np.ndarray]:
    """Parts of equal sizes, as far as that is possible, of the cohort by the number of steps, then examples, then
    client: those of a block finish at about the same time."""
    examples = plan.work.federation.sizes[cohort]
    order = np.lexsort((cohort, examples, steps_of(plan.work.training.in_round(t), examples)))
    return np.array_split(cohort[order], -(-len(cohort) // plan.block_size))


def train_block(
    plan: RoundPlan, block: Block, msg: Message, store: ClientStore, r: Round
) -> tuple[BlockSums, NewStates]:
    algorithm = plan.work.algorithm
    states = store.get(block.clients.tolist(), algorithm.init_client(msg.x))
    trained = attacked(plan.attack, block.clients, msg.x, plan.trainer.train(block, msg, states, r))
    finite = finite_rows((trained.upload, trained.client))
    if not bool(finite.all()):
        trained = map_leaves(lambda leaf: leaf[finite], trained)
        block = Block(block.t, block.clients[finite.cpu().numpy()], block.steps[finite], block.examples[finite])
    sums = received(plan, block, trained, finite)
    models = trained.y if plan.keep_models else trained.y[:0].clone()  # a view would keep the memory
    return sums, NewStates(block.clients.tolist(), trained.client, models)


def received(plan: RoundPlan, block: Block, trained: Trained, arrived: Tensor) -> BlockSums:
    """What the server gets of a block; `block` and `trained` have only the clients that arrived."""
    sums = sums_of(block, trained, arrived, plan.weighting, plan.work.algorithm.uniform)
    if not plan.aggregation.needs_all_uploads:
        return sums
    return sums._replace(rows=(rows_of(block, trained.upload, arrived, plan.weighting),))


def write_states(store: ClientStore, trained: list[NewStates]) -> None:
    for block in trained:
        store.put(block.clients, block.states)


class GradientSum(NamedTuple):
    """Of a block; for robust aggregation the clients' own gradients and weights, one row each."""

    gradient: Tensor
    weight: Tensor


def gradient_sum(plan: RoundPlan, block: Block, gradients: Tensor) -> GradientSum:
    """Of the clients whose gradient is finite."""
    gradients = attacked_vectors(plan.attack, block.clients, gradients)
    finite = torch.isfinite(gradients).all(1)
    weights = weights_of(plan.weighting, block) * finite
    if plan.aggregation.needs_all_uploads:
        return GradientSum(torch.where(finite[:, None], gradients, 0.0), weights)
    return GradientSum(torch.tensordot(weights, torch.where(finite[:, None], gradients, 0.0), dims=1), weights.sum())


def like_gradient_sum(plan: RoundPlan, block: Block, x: Vector) -> GradientSum:
    """Its structure."""
    clients = (len(block.clients),) if plan.aggregation.needs_all_uploads else ()
    return GradientSum(x.expand(*clients, -1), x.new_zeros(clients))


def mean_gradient(plan: RoundPlan, sums: list[GradientSum]) -> Vector:
    """The cohort's mean full-batch gradient, from the sums of the blocks in their order.

    It is an upload like others, so another rule applies to it, too; not a number if too few clients have one.
    """
    if plan.aggregation.needs_all_uploads:
        blocks = [UploadRows(*block) for block in sums]
        rows = joined(blocks, torch.cat([block.weights for block in blocks]) > 0)
        if len(rows.weights) == 0 or plan.aggregation.too_few(len(rows.weights)):
            return torch.full_like(sums[0].gradient[0], torch.nan)
        return plan.aggregation.of(rows, frozenset()).mean
    gradient, weight = sums[0]
    for block in sums[1:]:
        gradient, weight = gradient + block.gradient, weight + block.weight
    return gradient / weight


def traffic(msg: Message, upload: Upload, cohort: int, algorithm: Algorithm) -> dict[str, float]:
    """Bytes sent by and to the server in a round, from what was really sent."""
    down, up = size_in_bytes(msg), size_in_bytes(upload)
    if algorithm.full_gradient == "before":
        extra = size_in_bytes(msg.x)
        down, up = down + extra, up + extra
    return {"bytes_down": down * cohort, "bytes_up": up * cohort}


def size_in_bytes(tree: Tree) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))
