"""What every rank does of a round: it works out by itself which blocks are its own, and trains them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Message, OnRequest, Vector
from driftless.engine.block_total import BlockTotal
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import BatchResult, Evaluation, evaluate_batches
from driftless.engine.group import Group
from driftless.engine.minibatches import Block
from driftless.engine.packing import packed, room_for, unpacked
from driftless.engine.round import (
    NewStates,
    RoundPlan,
    blocks_of,
    gradient_sum,
    like_gradient_sum,
    mean_gradient,
    round_facts,
    train_block,
    write_states,
)
from driftless.engine.sums import BlockSums
from driftless.engine.tree import Tree, leaves, with_leaves


class Rank:
    """What every rank does of a round."""

    def __init__(self, group: Group, plan: RoundPlan, store: ClientStore, stored: list[int]) -> None:
        """`stored`: clients with a state; rank 0 has all of them in the beginning."""
        self.group = group
        self.plan = plan
        self.store = store
        self.owner = dict.fromkeys(stored, 0)
        """Which rank has the state of a client."""
        self._trained: list[tuple[Block, int, NewStates | None]] = []
        """The blocks of the last round, the rank of each, and the new states of this rank's."""
        self.trained_seconds = self.waited_seconds = 0.0
        """Of the last round: in training, and at rank 0 with nothing to do but wait for sums of the others."""

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
        states: dict[int, NewStates] = {}
        total, sent = BlockTotal(self.group, blocks, ranks), []
        self.trained_seconds = 0.0
        try:
            for i in mine:
                start = time.perf_counter()
                r = round_facts(plan.work, msg.x, t, len(cohort), blocks[i].steps, blocks[i].examples)
                r = r._replace(gradient=gradients.get(i), cohort_gradient=cohort_gradient)
                sums, states[i] = train_block(plan, blocks[i], msg, self.store, r)
                self.trained_seconds += time.perf_counter() - start
                if self.group.rank == 0:
                    total.add_own(i, sums)
                else:
                    sent += self.group.begin_send(packed(sums), 0)  # while the next block is trained
            self._trained = [
                (block, rank, states.get(i)) for i, (block, rank) in enumerate(zip(blocks, ranks, strict=True))
            ]
            self.group.finish(sent)
            result = total.result() if self.group.rank == 0 else None
        finally:
            total.close()
        self.waited_seconds = total.waited
        return result, cohort_gradient

    def accept(self) -> None:
        """The server has accepted the round."""
        write_states(self.store, [states for *_, states in self._trained if states is not None])
        for block, rank, _ in self._trained:
            self.owner.update(dict.fromkeys(block.clients.tolist(), rank))
        self._trained = []

    def trained_elsewhere(self, arrived: Tensor) -> list[int]:
        """Of the clients that arrived, those that another rank has trained."""
        parts = zip(self._trained, arrived.split([len(block.clients) for block, *_ in self._trained]), strict=True)
        others = [block.clients[part.cpu().numpy()] for (block, rank, _), part in parts if rank != self.group.rank]
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
        clients = [
            block.clients[part.cpu().numpy()].tolist() for (block, *_), part in zip(self._trained, parts, strict=True)
        ]
        return list(zip(clients, self.in_block_order(ranks, mine, like), strict=True))

    def evaluate(self, of: Evaluation, x: Vector, t: int) -> dict[int, BatchResult]:
        """The results of all batches, at rank 0."""
        group, places = self.group, of.batches()
        own = range(group.rank, len(places), group.size)
        results = evaluate_batches(of, x, t, own)
        if not own and group.rank > 0:
            return {}
        if group.rank > 0:
            packed = torch.cat([torch.cat([r.loss.view(1), r.correct]) for r in results.values()])
            group.send([torch.tensor([len(r.correct) for r in results.values()], device="cpu"), packed], 0)
            if of.metrics:
                group.send([r.outputs for r in results.values()], 0)
            return {}
        for rank in range(1, group.size):
            theirs = range(rank, len(places), group.size)
            if theirs:
                (sizes,) = group.receive([torch.empty(len(theirs), dtype=torch.long, device="cpu")], rank)
                (packed,) = group.receive(
                    [torch.empty(int(sizes.sum()) + len(theirs), dtype=torch.float64, device="cpu")], rank
                )
                outputs = [of.room(*places[i]) for i in theirs]
                if of.metrics:
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
                has_state = torch.tensor([client in self.store for client in clients], device="cpu")
                self.group.send([has_state, *leaves(self.store.get(clients, initial))], to)
                self.store.remove(clients)
            elif self.group.rank == to:
                (has_state,) = self.group.receive([torch.empty(len(clients), dtype=torch.bool, device="cpu")], source)
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
            like = [like_gradient_sum(self.plan, block, x) for block in blocks]
            result.copy_(mean_gradient(self.plan, self.in_block_order(ranks, sums, like)))
        else:
            self.in_block_order(ranks, sums, [])
        self.group.broadcast([result])
        return result

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
