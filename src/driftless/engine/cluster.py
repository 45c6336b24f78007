"""The blocks of a round in several processes, on `torch.distributed` with gloo.

Every rank knows the run, so it works out by itself which clients take part in a round, in which blocks, and which rank
computes which block. What travels is what only one rank has: the server's message to all, each block's sums back to
rank 0, and the state of a client that is trained by another rank than the last time. The sums are added in the order
of the blocks, so the number of workers does not change a bit.

A client's state is kept by the rank that trained it last. Rank 0 samples, updates the server, writes the run, and
computes its share of the blocks. The others are forked from it when the rounds begin, hence share its data
(processes.py), or were started with it by torchrun or srun and have built the run themselves (ranks.py).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Facts, Message, OnRequest, Vector
from driftless.engine.clients import ClientStore
from driftless.engine.evaluate import Evaluated, Evaluation, evaluated
from driftless.engine.group import Group
from driftless.engine.participation import Selection
from driftless.engine.processes import Processes
from driftless.engine.rank import Rank
from driftless.engine.ranks import current
from driftless.engine.round import RoundPlan
from driftless.engine.state import State
from driftless.engine.sums import BlockSums
from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves

STOP, ROUND, ROWS, EVALUATE, EVALUATE_COHORT = range(5)
"""Commands of rank 0."""


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


class Workers(Protocol):
    """The other ranks, as rank 0 deals with them."""

    busy: bool
    """Whether they are in the middle of a command."""

    @property
    def group(self) -> Group: ...

    def together(self) -> AbstractContextManager[None]:
        """A command that all ranks carry out; a rank that cannot raises WorkerDied, with its cause."""
        ...

    def end(self) -> None: ...


class Cluster:
    """Rank 0: an Executor that shares the blocks with the other ranks."""

    reasons: Mapping[int, str] = MappingProxyType({})

    def __init__(self, workers: Workers, plan: RoundPlan, evaluation: Evaluation, state: State) -> None:
        self.store = DistributedStore(state.clients)
        self._plan, self._evaluation, self._x = plan, evaluation, state.server.x
        self._accepted = False
        self._models: list[tuple[list[int], Tensor]] = []
        self._elsewhere: list[int] = []
        """Clients that another rank has trained in this round."""
        self.seconds: dict[str, float] = {}
        """How rank 0 has spent the last round: own blocks, sums that are not there yet, all else that is sent."""
        self._workers = workers
        known = state.clients.clients
        with workers.together():
            workers.group.broadcast(
                [torch.tensor([len(known)], device="cpu"), torch.tensor(known, dtype=torch.long, device="cpu")]
            )
        self._rank = Rank(workers.group, plan, self.store, known)
        self.store.cluster = self

    def train(self, msg: Message, cohort: np.ndarray, t: int) -> tuple[BlockSums, OnRequest]:
        start = time.perf_counter()
        with self._workers.together():
            self._command(ROUND, t)
            self._rank.group.broadcast(leaves(msg))
            total, cohort_gradient = self._rank.train(msg, cohort, t)
            assert total is not None
            self._models = self._rank.models(total.arrived, msg.x) if self._plan.keep_models else []
        trained, waited = self._rank.trained_seconds, self._rank.waited_seconds
        rest = time.perf_counter() - start - trained - waited
        self.seconds = {"training": trained, "waiting": waited, "communication": rest}
        self._elsewhere = self._rank.trained_elsewhere(total.arrived)
        return total, cohort_gradient

    def accept(self) -> list[tuple[list[int], Tensor]]:
        self._accepted = True  # the workers read it with the next command
        if leaves(self._plan.work.algorithm.init_client(self._x)):
            self.store.away.update(self._elsewhere)
            self.store.touched.update(self._elsewhere)
        self._rank.accept()
        return self._models

    def evaluate(self, x: Vector, t: int, cohort: np.ndarray | None = None) -> Evaluated:
        of = self._evaluation if cohort is None else self._evaluation.of_cohort(cohort)
        with self._workers.together():
            self._command(EVALUATE if cohort is None else EVALUATE_COHORT, t)
            self._rank.group.broadcast([x])
            results = self._rank.evaluate(of, x, t)
        return evaluated(of, results, t)

    def fetch(self, clients: list[int]) -> list[Tensor]:
        """States of clients of all ranks."""
        with self._workers.together():
            self._command(ROWS, len(clients))
            self._rank.group.broadcast([torch.tensor(clients, device="cpu")])
            return self._rank.rows(clients, self._x)

    def _command(self, what: int, number: int) -> None:
        """Send the workers what comes, and whether the round before was accepted."""
        self._rank.group.broadcast([torch.tensor([what, number, int(self._accepted)], device="cpu")])
        self._accepted = False

    def close(self) -> None:
        """Fetch the clients' states and let the workers end; in the middle of a command, just end them."""
        try:
            if not self._workers.busy:
                self._fetch_all()
                self._command(STOP, 0)
        finally:
            self.store.cluster = None
            self._workers.end()

    def _fetch_all(self) -> None:
        away, touched = sorted(self.store.away), set(self.store.touched)
        if away:
            rows = self.fetch(away)
            self.store.put(away, with_leaves(self._plan.work.algorithm.init_client(self._x), rows))
            self.store.touched = touched


@contextmanager
def start_cluster(
    number: int, plan: RoundPlan, selection: Selection, evaluation: Evaluation, state: State
) -> Generator[Cluster]:
    """On the ranks of the launch, which follow by themselves, or on processes forked here."""

    def serve(group: Group) -> None:
        follow(group, plan, selection, evaluation, state.clients.empty())

    workers = current() if current().size > 1 else Processes(number, serve)
    try:
        cluster = Cluster(workers, plan, evaluation, state)
    except BaseException:
        workers.end()
        raise
    try:
        yield cluster
    finally:
        cluster.close()


def follow(group: Group, plan: RoundPlan, selection: Selection, evaluation: Evaluation, store: ClientStore) -> None:
    """What the other ranks do: the commands of rank 0, until STOP."""
    work, x = plan.work, plan.work.model.initial
    number = torch.zeros(1, dtype=torch.long, device="cpu")
    group.broadcast([number])
    known = torch.zeros(int(number), dtype=torch.long, device="cpu")
    group.broadcast([known])
    rank = Rank(group, plan, store, known.tolist())
    facts = Facts(work.model.layers, work.federation.clients)
    like = work.algorithm.broadcast(work.algorithm.init_server(x, facts))
    while True:
        command = torch.zeros(3, dtype=torch.long, device="cpu")
        group.broadcast([command])
        what, number, accepted = command.tolist()
        if accepted:
            rank.accept()
        if what == STOP:
            return
        if what == ROWS:
            clients = torch.zeros(number, dtype=torch.long, device="cpu")
            group.broadcast([clients])
            rank.rows(clients.tolist(), x)
        elif what in (EVALUATE, EVALUATE_COHORT):
            vector = torch.empty_like(x)
            group.broadcast([vector])
            of = evaluation if what == EVALUATE else evaluation.of_cohort(selection.of_round(number).cohort)
            rank.evaluate(of, vector, number)
        else:
            msg = map_leaves(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), like)
            group.broadcast(leaves(msg))
            rank.train(msg, selection.of_round(number).cohort, number)
            if rank.plan.keep_models:
                rank.models(None, x)
