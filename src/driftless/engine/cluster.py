"""The blocks of a round in several processes, on `torch.distributed` with gloo.

Every rank knows the run, so it works out by itself which clients take part in a round, in which blocks, and which rank
computes which block. What travels is what only one rank has: the server's message to all, each block's sums back to
rank 0, and the state of a client that is trained by another rank than the last time. The sums are added in the order
of the blocks, so the number of workers does not change a bit.

A client's state is kept by the rank that trained it last. Rank 0 is the process of the user: it samples, updates the
server, writes the run, and computes its share of the blocks. The others are forked from it when the rounds begin, hence
share its data, and end with it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Facts, Message, OnRequest, Vector
from driftless.data.cohorts import Schedule
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import BatchResult, Evaluated, Evaluation, evaluate_batches, evaluated
from driftless.engine.minibatches import Block
from driftless.engine.packing import packed, room_for, unpacked
from driftless.engine.processes import Group, Processes
from driftless.engine.round import (
    GradientSum,
    NewStates,
    RoundPlan,
    blocks_of,
    gradient_sum,
    mean_gradient,
    round_facts,
    train_block,
    write_states,
)
from driftless.engine.state import State
from driftless.engine.sums import BlockSums, add
from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves

STOP, ROUND, ROWS, EVALUATE = range(4)
"""Commands of rank 0."""


class Rank:
    """What every rank does of a round."""

    def __init__(
        self, group: Group, plan: RoundPlan, evaluation: Evaluation, store: ClientStore, stored: list[int]
    ) -> None:
        """`stored`: clients with a state; rank 0 has all of them in the beginning."""
        self.group = group
        self.plan = plan
        self.evaluation = evaluation
        self.store = store
        self.owner = dict.fromkeys(stored, 0)
        """Which rank has the state of a client."""
        self._trained: list[tuple[Block, int, NewStates | None]] = []
        """The blocks of the last round, the rank of each, and the new states of this rank's."""

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums | None, OnRequest]:
        """The sums over the cohort (at rank 0), and the cohort's gradient if it was asked for."""
        plan = self.plan
        blocks = blocks_of(plan, cohort, t, msg.x)
        ranks = assignment(blocks, self.group.size)
        mine = [i for i, rank in enumerate(ranks) if rank == self.group.rank]
        self._move_states(blocks, ranks, msg.x)
        gradients: dict[int, Tensor] = {}
        cohort_gradient: OnRequest = None
        if plan.work.algorithm.full_gradient == "before":
            gradients = {i: plan.trainer.gradients(blocks[i], msg.x) for i in mine}
            cohort_gradient = self._cohort_gradient(blocks, ranks, gradients, msg.x)
        sums: dict[int, BlockSums] = {}
        states: dict[int, NewStates] = {}
        for i in mine:
            r = round_facts(plan, msg.x, t, len(cohort), blocks[i].steps, blocks[i].examples)
            r = r._replace(gradient=gradients.get(i), cohort_gradient=cohort_gradient)
            sums[i], states[i] = train_block(plan, blocks[i], msg, self.store, r)
        self._trained = [
            (block, rank, states.get(i)) for i, (block, rank) in enumerate(zip(blocks, ranks, strict=True))
        ]
        return self._sum(blocks, ranks, sums), cohort_gradient

    def accept(self) -> None:
        """The server has accepted the round."""
        write_states(self.store, [states for *_, states in self._trained if states is not None])
        for block, rank, _ in self._trained:
            self.owner.update(dict.fromkeys(block.clients.tolist(), rank))
        self._trained = []

    def trained_elsewhere(self, arrived: Tensor) -> list[int]:
        """Of the clients that arrived, those that another rank has trained."""
        parts = zip(self._trained, arrived.split([len(block.clients) for block, *_ in self._trained]), strict=True)
        others = [block.clients[part.numpy()] for (block, rank, _), part in parts if rank != self.group.rank]
        return [client for clients in others for client in clients.tolist()]

    def models(self, arrived: Tensor | None, x: Vector) -> list[tuple[list[int], Tensor]]:
        """The models of the clients trained last, at rank 0; `arrived` says there which of them have one."""
        ranks = [rank for _, rank, _ in self._trained]
        mine = {i: states.models for i, (*_, states) in enumerate(self._trained) if states is not None}
        if arrived is None:
            self.in_block_order(ranks, mine, [])
            return []
        parts = arrived.split([len(block.clients) for block, *_ in self._trained])
        like = [x.expand(int(part.sum()), -1) for part in parts]
        clients = [block.clients[part.numpy()].tolist() for (block, *_), part in zip(self._trained, parts, strict=True)]
        return list(zip(clients, self.in_block_order(ranks, mine, like), strict=True))

    def evaluate(self, x: Vector, t: int) -> dict[int, BatchResult]:
        """The results of all batches, at rank 0."""
        group, places = self.group, self.evaluation.batches()
        own = range(group.rank, len(places), group.size)
        results = evaluate_batches(self.evaluation, x, t, own)
        if not own and group.rank > 0:
            return {}
        if group.rank > 0:
            packed = torch.cat([torch.cat([r.loss.view(1), r.correct]) for r in results.values()])
            group.send([torch.tensor([len(r.correct) for r in results.values()], device="cpu"), packed], 0)
            if self.evaluation.metrics:
                group.send([r.outputs for r in results.values()], 0)
            return {}
        for rank in range(1, group.size):
            theirs = range(rank, len(places), group.size)
            if theirs:
                (sizes,) = group.receive([torch.empty(len(theirs), dtype=torch.long, device="cpu")], rank)
                (packed,) = group.receive(
                    [torch.empty(int(sizes.sum()) + len(theirs), dtype=torch.float64, device="cpu")], rank
                )
                outputs = [self.evaluation.room(*places[i]) for i in theirs]
                if self.evaluation.metrics:
                    group.receive(outputs, rank)
                for i, part, own in zip(theirs, packed.split((sizes + 1).tolist()), outputs, strict=True):
                    results[i] = BatchResult(part[0], part[1:], own)
        return results

    def rows(self, clients: list[int], x: Vector) -> list[Tensor]:
        """States of these clients, whichever rank has them, at rank 0."""
        initial = self.plan.work.algorithm.init_client(x)
        if self.group.rank > 0:
            mine = [client for client in clients if self.owner[client] == self.group.rank]
            if mine:
                self.group.send(leaves(self.store.get(mine, initial)), 0)
            return []
        found = leaves(self.store.get(clients, initial))
        for rank in range(1, self.group.size):
            there = [i for i, client in enumerate(clients) if self.owner[client] == rank]
            if there:
                for whole, part in zip(found, self._receive_rows(len(there), initial, rank), strict=True):
                    whole[there] = part
        return found

    def _move_states(self, blocks: list[Block], ranks: list[int], x: Vector) -> None:
        """Bring the states of clients to the ranks that train them now; all ranks go through the same list."""
        initial = self.plan.work.algorithm.init_client(x)
        if not leaves(initial):
            return
        moves: dict[tuple[int, int], list[int]] = {}
        for block, rank in zip(blocks, ranks, strict=True):
            for client in block.clients.tolist():
                if self.owner.get(client, rank) != rank:
                    moves.setdefault((self.owner[client], rank), []).append(client)
        for (source, to), clients in sorted(moves.items()):
            if self.group.rank == source:
                # A client whose updates were never finite has been trained here and still has no state.
                has_state = torch.tensor([client in self.store for client in clients])
                self.group.send([has_state, *leaves(self.store.get(clients, initial))], to)
                self.store.remove(clients)
            elif self.group.rank == to:
                (has_state,) = self.group.receive([torch.empty(len(clients), dtype=torch.bool)], source)
                rows = [leaf[has_state] for leaf in self._receive_rows(len(clients), initial, source)]
                known = [client for client, has in zip(clients, has_state, strict=True) if has]
                self.store.put(known, with_leaves(initial, rows))
            self.owner.update(dict.fromkeys(clients, to))

    def _receive_rows(self, number: int, initial: Tree, source: int) -> list[Tensor]:
        return self.group.receive([leaf.new_empty(number, *leaf.shape) for leaf in leaves(initial)], source)

    def _cohort_gradient(
        self, blocks: list[Block], ranks: list[int], gradients: dict[int, Tensor], x: Vector
    ) -> Vector:
        sums = {i: gradient_sum(self.plan, blocks[i], g) for i, g in gradients.items()}
        result = torch.empty_like(x)
        if self.group.rank == 0:
            like = GradientSum(x, x.new_zeros(()))
            result.copy_(mean_gradient(self.in_block_order(ranks, sums, [like] * len(ranks))))
        else:
            self.in_block_order(ranks, sums, [])
        self.group.broadcast([result])
        return result

    def _sum(self, blocks: list[Block], ranks: list[int], sums: dict[int, BlockSums]) -> BlockSums | None:
        if self.group.rank > 0:
            self.in_block_order(ranks, sums, [])
            return None
        example = sums[ranks.index(0)]
        like = [example._replace(arrived=torch.empty(len(block.clients), dtype=torch.bool)) for block in blocks]
        total: BlockSums | None = None
        for block in self.in_block_order(ranks, sums, like):
            total = add(total, block)
        return total

    def in_block_order(self, ranks: list[int], mine: dict[int, Any], like: Sequence[Any]) -> list[Any]:
        """What the ranks have for each block, at rank 0 in the order of the blocks; `like` gives its structure."""
        if self.group.rank > 0:
            for i in sorted(mine):
                self.group.send(packed(mine[i]), 0)
            return []
        return [
            mine[i] if rank == 0 else unpacked(self.group.receive(room_for(like[i]), rank), like[i])
            for i, rank in enumerate(ranks)
        ]


def assignment(blocks: list[Block], ranks: int) -> list[int]:
    """Which rank computes each block: the longest first, each to the rank that has least to do."""
    load = [0.0] * ranks
    result = [0] * len(blocks)
    steps = [float(block.steps.max()) * len(block.clients) for block in blocks]
    for i in sorted(range(len(blocks)), key=lambda i: (-steps[i], i)):
        result[i] = min(range(ranks), key=lambda rank: (load[rank], rank))
        load[result[i]] += steps[i]
    return result


class DistributedStore(ClientStore):
    """The client states of all ranks, as rank 0 sees them."""

    def __init__(self, store: ClientStore) -> None:
        super().__init__()
        self.__dict__.update(store.__dict__)
        self.cluster: Cluster | None = None
        self.away: set[int] = set()
        """Clients whose state another rank has."""

    def __len__(self) -> int:
        return super().__len__() + len(self.away)

    def __contains__(self, client: int) -> bool:
        return super().__contains__(client) or client in self.away

    @property
    def clients(self) -> list[int]:
        return [*super().clients, *sorted(self.away)]

    def rows(self, clients: Sequence[int]) -> list[Tensor]:
        if self.cluster is None or self.away.isdisjoint(clients):
            return super().rows(clients)
        return self.as_stored(self.cluster.fetch(list(clients)))

    def put(self, clients: Sequence[int], states: Tree) -> None:
        super().put(clients, states)
        self.away.difference_update(clients)

    def remove(self, clients: Sequence[int]) -> None:
        """They go to another rank; that a checkpoint has yet to save them is kept."""
        touched = set(self.touched)
        self.away.update(client for client in clients if super(DistributedStore, self).__contains__(client))
        super().remove(clients)
        self.touched = touched

    def copy(self) -> ClientStore:
        plain = ClientStore()
        plain.__dict__.update({name: value for name, value in self.__dict__.items() if name in plain.__dict__})
        return plain.copy()


class Cluster:
    """Rank 0: an Executor that shares the blocks with its workers."""

    def __init__(self, workers: int, plan: RoundPlan, cohort: Schedule, evaluation: Evaluation, state: State) -> None:
        self.store = DistributedStore(state.clients)
        self._plan, self._x = plan, state.server.x
        self._accepted = False
        self._models: list[tuple[list[int], Tensor]] = []
        self._elsewhere: list[int] = []
        """Clients that another rank has trained in this round."""
        known = state.clients.clients

        def serve(group: Group) -> None:
            follow(Rank(group, plan, evaluation, state.clients.empty(), known), cohort, state.server.x)

        self._processes = Processes(workers, serve)
        self._rank = Rank(self._processes.group, plan, evaluation, self.store, known)
        self.store.cluster = self

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        with self._processes.together():
            self._command(ROUND, t)
            self._rank.group.broadcast(leaves(msg))
            total, cohort_gradient = self._rank.train(msg, cohort, t)
            assert total is not None
            self._models = self._rank.models(total.arrived, msg.x) if self._plan.keep_models else []
        self._elsewhere = self._rank.trained_elsewhere(total.arrived)
        return total, cohort_gradient

    def accept(self) -> list[tuple[list[int], Tensor]]:
        self._accepted = True  # the workers read it with the next command
        if leaves(self._plan.work.algorithm.init_client(self._x)):
            self.store.away.update(self._elsewhere)
            self.store.touched.update(self._elsewhere)
        self._rank.accept()
        return self._models

    def evaluate(self, x: Vector, t: int) -> Evaluated:
        with self._processes.together():
            self._command(EVALUATE, t)
            self._rank.group.broadcast([x])
            results = self._rank.evaluate(x, t)
        return evaluated(self._rank.evaluation, results, t)

    def fetch(self, clients: list[int]) -> list[Tensor]:
        """States of clients of all ranks."""
        with self._processes.together():
            self._command(ROWS, len(clients))
            self._rank.group.broadcast([torch.tensor(clients)])
            return self._rank.rows(clients, self._x)

    def _command(self, what: int, number: int) -> None:
        """Send the workers what comes, and whether the round before was accepted."""
        self._rank.group.broadcast([torch.tensor([what, number, int(self._accepted)])])
        self._accepted = False

    def close(self) -> None:
        """Fetch the clients' states and let the workers end; in the middle of a command, just end them."""
        try:
            if not self._processes.busy:
                self._fetch_all()
                self._command(STOP, 0)
        finally:
            self.store.cluster = None
            self._processes.end()

    def _fetch_all(self) -> None:
        away, touched = sorted(self.store.away), set(self.store.touched)
        if away:
            rows = self.fetch(away)
            self.store.put(away, with_leaves(self._plan.work.algorithm.init_client(self._x), rows))
            self.store.touched = touched


@contextmanager
def start_cluster(
    workers: int, plan: RoundPlan, cohort: Schedule, evaluation: Evaluation, state: State
) -> Generator[Cluster]:
    cluster = Cluster(workers, plan, cohort, evaluation, state)
    try:
        yield cluster
    finally:
        cluster.close()


def follow(rank: Rank, cohort: Schedule, x: Vector) -> None:
    """What a worker does: the commands of rank 0, until STOP."""
    group, work = rank.group, rank.plan.work
    facts = Facts(work.model.layers, work.federation.clients)
    like = work.algorithm.broadcast(work.algorithm.init_server(x, facts))
    while True:
        command = torch.zeros(3, dtype=torch.long)
        group.broadcast([command])
        what, number, accepted = command.tolist()
        if accepted:
            rank.accept()
        if what == STOP:
            return
        if what == ROWS:
            clients = torch.zeros(number, dtype=torch.long)
            group.broadcast([clients])
            rank.rows(clients.tolist(), x)
        elif what == EVALUATE:
            vector = torch.empty_like(x)
            group.broadcast([vector])
            rank.evaluate(vector, number)
        else:
            msg = map_leaves(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), like)
            group.broadcast(leaves(msg))
            rank.train(msg, cohort.clients(number, work.federation.clients, work.seed), number)
            if rank.plan.keep_models:
                rank.models(None, x)
