"""One round: broadcast -> blocks -> weighted sums -> update.

Blocks are summed in block order, so neither the order of the cohort nor which process computed a block changes the
result. A round is a transaction: client states are written only when the server has accepted the round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Client, Message, OnRequest, Round, Server, Upload, Vector
from driftless.engine.batches import steps_of
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import Evaluated, Evaluation, evaluate_batches, evaluated
from driftless.engine.local import Trained
from driftless.engine.minibatches import Block, Workload
from driftless.engine.sums import BlockSums, add, finite_rows, means_of, row_of, sums_of, weights_of
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
    left_out: list[int]
    """Clients whose update was not finite."""


class Executor(Protocol):
    """Trains the blocks of a round: in this process (below), or in several (cluster.py)."""

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        """The sums over the cohort, and the cohort's mean full-batch gradient if the algorithm asks for it."""
        ...

    def accept(self) -> list[tuple[list[int], Tensor]]:
        """Write the new states of the clients that were trained last; returns their models if these are kept."""
        ...

    def evaluate(self, x: Vector, t: int) -> Evaluated:
        """Losses, accuracies and metrics of the model after round t."""
        ...


def play_round(
    plan: RoundPlan, algorithm: Algorithm, server: Server, executor: Executor, cohort: np.ndarray, t: int
) -> RoundResult:
    """`algorithm` is the run's, with the server learning rate of this round."""
    msg = algorithm.broadcast(server)
    total, cohort_gradient = executor.train(msg, cohort, t)
    row = traffic(msg, total.uploads, len(cohort), algorithm)
    left_out = in_blocks(plan, cohort)[~total.arrived.cpu().numpy()].tolist()
    if total.number == 0:
        if algorithm.needs_clients:
            return RoundResult(None, None, row, left_out)
        empty = play_empty_round(plan, algorithm, server, t)
        return empty._replace(row=row | empty.row, left_out=left_out)
    mean, metrics = means_of(total, algorithm.uniform)
    r = round_facts(plan, msg.x, t, total.number, metrics.steps, metrics.examples)
    result = updated(algorithm, server, msg, mean, r._replace(cohort_gradient=cohort_gradient))
    measured = row_of(total, mean, metrics) if result.server is not None else {}
    return result._replace(row=row | measured | result.row, left_out=left_out)


def updated(algorithm: Algorithm, server: Server, msg: Message, mean: Upload, r: Round) -> RoundResult:
    """The server's step; its row has what the algorithm itself records."""
    new_server = algorithm.update(server, mean, r)
    # Numbers that are not vectors may be infinite on purpose: "the lowest so far" before there is one.
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves(new_server) if leaf.dim()):
        return RoundResult(None, None, {}, [])
    own = {name: float(value) for name, value in algorithm.diagnostics(new_server, mean).items()}
    return RoundResult(new_server, msg.x + mean.delta, own, [])


def play_empty_round(plan: RoundPlan, algorithm: Algorithm, server: Server, t: int) -> RoundResult:
    """A round to which no client was drawn, or from which none arrived: nothing changes, unless `update` says so."""
    msg = algorithm.broadcast(server)
    if algorithm.needs_clients:
        return RoundResult(server, msg.x, {}, [])
    one = torch.ones_like(msg.x[0])
    r = round_facts(plan, msg.x, t, 0, one, one)
    client, of_client = algorithm.init_client(msg.x), r._replace(gradient=torch.zeros_like(msg.x))
    upload, _ = algorithm.upload(msg.x, algorithm.init_local(msg, client, of_client), msg, client, of_client)
    return updated(algorithm, server, msg, map_leaves(torch.zeros_like, upload), r)


def round_facts(plan: RoundPlan, x: Vector, t: int, cohort: int, steps: Tensor, examples: Tensor) -> Round:
    """`steps` and `examples`: means over the cohort for the server, a number for each client of a block."""
    lr = x.new_tensor(plan.work.training.lr_at(t))
    clients = plan.work.federation.clients
    return Round(x.new_tensor(t), lr, steps, examples, cohort, clients, plan.work.model.layers)


class InProcess:
    """All blocks in this process, one after the other."""

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
            gradients, cohort_gradient = [*of_blocks], mean_gradient(sums)
        total, self._trained = None, []
        for block, gradient in zip(blocks, gradients, strict=True):
            r = round_facts(plan, msg.x, t, len(cohort), block.steps, block.examples)
            r = r._replace(gradient=gradient, cohort_gradient=cohort_gradient)
            sums, states = train_block(plan, block, msg, self._store, r)
            total = add(total, sums)
            self._trained.append(states)
        assert total is not None
        return total, cohort_gradient

    def accept(self) -> list[tuple[list[int], Tensor]]:
        write_states(self._store, self._trained)
        return [(block.clients, block.models) for block in self._trained] if self._plan.keep_models else []

    def evaluate(self, x: Vector, t: int) -> Evaluated:
        every = range(len(self._evaluation.batches()))
        return evaluated(self._evaluation, evaluate_batches(self._evaluation, x, t, every), t)


def blocks_of(plan: RoundPlan, cohort: np.ndarray, t: int, x: Vector) -> list[Block]:
    """The cohort in blocks of equal sizes, as far as that is possible; numbers are of the type and device of x."""
    blocks: list[Block] = []
    for clients in np.array_split(in_blocks(plan, cohort), -(-len(cohort) // plan.block_size)):
        examples = plan.work.federation.sizes[clients]
        steps = steps_of(plan.work.training, examples)
        blocks.append(Block(t, clients, torch.from_numpy(steps).to(x), torch.from_numpy(examples).to(x)))
    return blocks


def in_blocks(plan: RoundPlan, cohort: np.ndarray) -> np.ndarray:
    """The cohort by the number of steps, then examples, then client: those of a block finish at about the same time."""
    examples = plan.work.federation.sizes[cohort]
    return cohort[np.lexsort((cohort, examples, steps_of(plan.work.training, examples)))]


def train_block(
    plan: RoundPlan, block: Block, msg: Message, store: ClientStore, r: Round
) -> tuple[BlockSums, NewStates]:
    algorithm = plan.work.algorithm
    states = store.get(block.clients.tolist(), algorithm.init_client(msg.x))
    trained = plan.trainer.train(block, msg, states, r)
    finite = finite_rows((trained.upload, trained.client))
    if not bool(finite.all()):
        trained = map_leaves(lambda leaf: leaf[finite], trained)
        block = Block(block.t, block.clients[finite.cpu().numpy()], block.steps[finite], block.examples[finite])
    sums = sums_of(block, trained, finite, plan.weighting, algorithm.uniform)
    models = trained.y if plan.keep_models else trained.y[:0].clone()  # a view would keep the memory
    return sums, NewStates(block.clients.tolist(), trained.client, models)


def write_states(store: ClientStore, trained: list[NewStates]) -> None:
    for block in trained:
        store.put(block.clients, block.states)


class GradientSum(NamedTuple):
    gradient: Tensor
    weight: Tensor


def gradient_sum(plan: RoundPlan, block: Block, gradients: Tensor) -> GradientSum:
    """Of the clients whose gradient is finite."""
    finite = torch.isfinite(gradients).all(1)
    weights = weights_of(plan.weighting, block) * finite
    return GradientSum(torch.tensordot(weights, torch.where(finite[:, None], gradients, 0.0), dims=1), weights.sum())


def mean_gradient(sums: list[GradientSum]) -> Vector:
    """The cohort's mean full-batch gradient, from the sums of the blocks in their order."""
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
