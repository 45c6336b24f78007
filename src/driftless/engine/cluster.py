"""The blocks of a round in several processes, on `torch.distributed` with gloo.

Every rank knows the run, so it works out by itself which clients take part in a round, in which blocks, and who
computes which block. What travels is what only one rank knows: the server's message to all, each block's sums back to
rank 0, and the state of a client that is trained by another rank than the last time. The sums are added in the order
of the blocks, so the number of workers does not change a bit.

A client's state is kept by the rank that trained it last. Rank 0 is the process of the user: it samples, updates the
server, writes the run, and computes its share of the blocks. The others are forked from it when the rounds begin, hence
share its data, and end with it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from driftless.algorithm import Facts, OnRequest, Vector
from driftless.data.cohorts import Schedule
from driftless.engine.block import Work
from driftless.engine.clients import ClientStore
from driftless.engine.outcome import Outcome
from driftless.engine.round import (
    Done,
    Finished,
    GradientSum,
    RoundPlan,
    Task,
    full_gradients,
    gradient_sum,
    keep_states,
    mean_gradient,
    task_of,
    train_block,
)
from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves
from driftless.errors import InputError, WorkerDied

PATIENCE = timedelta(days=7)
"""A round may take long; a rank that died is noticed by its closed connection, not by a time-out."""
PR_SET_PDEATHSIG = 1
LONGEST_CAUSE = 8000
"""Characters: well below what a pipe holds, so that telling never waits for a reader."""
STOP, ROUND, ROWS = range(3)
"""What rank 0 orders."""


class Group(NamedTuple):
    """The ranks of a run."""

    pg: Any
    rank: int
    size: int

    def to_all(self, values: list[Tensor]) -> None:
        """From rank 0, into the others' tensors, which are contiguous."""
        for value in values:
            self.pg.broadcast(value.contiguous(), 0).wait()

    def send(self, values: list[Tensor], to: int) -> None:
        for value in values:
            self.pg.send([value.contiguous()], to, 0).wait()

    def receive(self, values: list[Tensor], source: int) -> list[Tensor]:
        for value in values:
            self.pg.recv([value], source, 0).wait()
        return values


def connect(folder: Path, rank: int, size: int) -> Group:
    options = dist.ProcessGroupGloo._Options()  # pyright: ignore
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = PATIENCE
    store = dist.FileStore(str(folder / "store"), size)  # pyright: ignore[reportPrivateImportUsage]
    return Group(dist.ProcessGroupGloo(store, rank, size, options), rank, size)


class Share:
    """One rank's part in the rounds of a run."""

    def __init__(self, group: Group, plan: RoundPlan, store: ClientStore, known: list[int]) -> None:
        """`known`: clients with a state; rank 0 has all of them in the beginning."""
        self.group = group
        self.plan = plan
        self.store = store
        self.owner = dict.fromkeys(known, 0)
        """Which rank has the state of a client."""

    def train(self, task: Task) -> tuple[list[int], dict[int, Done], OnRequest]:
        """Who computes which block, the blocks of this rank, and the cohort's gradient if it was asked for."""
        plan, who = self.plan, assignment(task.blocks, self.group.size)
        mine = [i for i, rank in enumerate(who) if rank == self.group.rank]
        self._move_states(task, who)
        r, gradients = task.r, dict[int, Tensor]()
        if plan.algorithm.full_gradient == "before":
            gradients = {i: full_gradients(plan, task.blocks[i], task.msg.x) for i in mine}
            r = r._replace(cohort_gradient=self._cohort_gradient(task, who, gradients))
        done = {
            i: train_block(plan, task.blocks[i], task.msg, self.store, r._replace(gradient=gradients.get(i)))
            for i in mine
        }
        return who, done, r.cohort_gradient

    def keep(self, task: Task, who: list[int], done: dict[int, Done]) -> None:
        """The server has accepted the round."""
        keep_states(self.store, list(done.values()))
        for work, rank in zip(task.blocks, who, strict=True):
            self.owner.update(dict.fromkeys(work.clients.tolist(), rank))

    def rows(self, clients: list[int], x: Vector) -> list[Tensor]:
        """States of these clients, of whatever rank they are, at rank 0."""
        initial = self.plan.algorithm.init_client(x)
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

    def _move_states(self, task: Task, who: list[int]) -> None:
        """Bring the states of clients to the ranks that train them now; all ranks go through the same list."""
        initial = self.plan.algorithm.init_client(task.msg.x)
        if not leaves(initial):
            return
        moves: dict[tuple[int, int], list[int]] = {}
        for work, rank in zip(task.blocks, who, strict=True):
            for client in work.clients.tolist():
                if self.owner.get(client, rank) != rank:
                    moves.setdefault((self.owner[client], rank), []).append(client)
        for (source, to), clients in sorted(moves.items()):
            if self.group.rank == source:
                # A client whose updates were never finite has been trained here and still has no state.
                there = torch.tensor([client in self.store for client in clients])
                self.group.send([there, *leaves(self.store.get(clients, initial))], to)
                self.store.remove(clients)
            elif self.group.rank == to:
                (there,) = self.group.receive([torch.empty(len(clients), dtype=torch.bool)], source)
                rows = [leaf[there] for leaf in self._receive_rows(len(clients), initial, source)]
                self.store.put([c for c, has in zip(clients, there, strict=True) if has], with_leaves(initial, rows))
            self.owner.update(dict.fromkeys(clients, to))

    def _receive_rows(self, number: int, initial: Tree, source: int) -> list[Tensor]:
        return self.group.receive([leaf.new_empty(number, *leaf.shape) for leaf in leaves(initial)], source)

    def _cohort_gradient(self, task: Task, who: list[int], gradients: dict[int, Tensor]) -> Vector:
        sums = {i: gradient_sum(self.plan, task.blocks[i], g) for i, g in gradients.items()}
        result = torch.empty_like(task.msg.x)
        if self.group.rank == 0:
            like = GradientSum(task.msg.x, task.r.lr)
            result.copy_(mean_gradient(self.in_order(who, sums, [like] * len(who))))
        else:
            self.in_order(who, sums, [])
        self.group.to_all([result])
        return result

    def in_order(self, who: list[int], mine: dict[int, Any], like: Sequence[Any]) -> list[Any]:
        """What the ranks have for each block, at rank 0 in the order of the blocks; `like` gives its structure."""
        if self.group.rank > 0:
            for i in sorted(mine):
                self.group.send(packed(mine[i]), 0)
            return []
        return [
            mine[i] if rank == 0 else unpacked(self.group.receive(room_for(like[i]), rank), like[i])
            for i, rank in enumerate(who)
        ]


def assignment(blocks: list[Work], ranks: int) -> list[int]:
    """Which rank computes each block: the longest first, each to the rank that has least to do."""
    load = [0.0] * ranks
    who = [0] * len(blocks)
    steps = [float(work.steps.max()) * len(work.clients) for work in blocks]
    for i in sorted(range(len(blocks)), key=lambda i: (-steps[i], i)):
        who[i] = min(range(ranks), key=lambda rank: (load[rank], rank))
        load[who[i]] += steps[i]
    return who


def packed(tree: Tree) -> list[Tensor]:
    """The leaves of a tree as one vector a dtype: few messages."""
    return [torch.cat([leaf.flatten() for leaf in group]) for group in by_dtype(leaves(tree))]


def room_for(like: Tree) -> list[Tensor]:
    return [torch.empty(sum(leaf.numel() for leaf in group), dtype=group[0].dtype) for group in by_dtype(leaves(like))]


def unpacked(vectors: list[Tensor], like: Tree) -> Tree:
    groups = by_dtype(leaves(like))
    parts = {
        id(leaf): part.view(leaf.shape)
        for vector, group in zip(vectors, groups, strict=True)
        for leaf, part in zip(group, vector.split([leaf.numel() for leaf in group]), strict=True)
    }
    return map_leaves(lambda leaf: parts[id(leaf)], like)


def by_dtype(values: list[Tensor]) -> list[list[Tensor]]:
    groups: dict[torch.dtype, list[Tensor]] = {}
    for value in values:
        groups.setdefault(value.dtype, []).append(value)
    return list(groups.values())


# -------------------------------------------------------------------------------------------------------------- rank 0


class SharedStore(ClientStore):
    """The client states of all ranks, as rank 0 sees them."""

    def __init__(self, store: ClientStore) -> None:
        super().__init__()
        self.__dict__.update(store.__dict__)
        self.team: Team | None = None
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
        if self.team is None or self.away.isdisjoint(clients):
            return super().rows(clients)
        return self.team.fetch(list(clients))

    def put(self, clients: Sequence[int], states: Tree) -> None:
        super().put(clients, states)
        self.away.difference_update(clients)

    def remove(self, clients: Sequence[int]) -> None:
        """They go to another rank; that a checkpoint has yet to save them is not forgotten."""
        touched = set(self.touched)
        self.away.update(client for client in clients if super(SharedStore, self).__contains__(client))
        super().remove(clients)
        self.touched = touched

    def copy(self) -> ClientStore:
        twin = ClientStore()
        twin.__dict__.update({name: value for name, value in self.__dict__.items() if name in twin.__dict__})
        return twin.copy()


class Team:
    """Rank 0 and its workers."""

    def __init__(self, plan: RoundPlan, cohort: Schedule, store: ClientStore, x: Vector) -> None:
        if multiprocessing.current_process().daemon:
            raise InputError("workers cannot be started from a worker of a multiprocessing pool; use workers=1 there.")
        self.store = SharedStore(store)
        self._plan, self._x = plan, x
        self._busy = False
        """Whether the workers are in the middle of something."""
        self._folder = Path(tempfile.mkdtemp(prefix="driftless-"))
        self._accepted = False
        fork = multiprocessing.get_context("fork")
        self._processes: list[BaseProcess] = []
        self._causes: list[Connection] = []
        for rank in range(1, plan.workers):
            here, there = fork.Pipe(duplex=False)
            arguments = (self._folder, rank, plan, cohort, store.clients, x, there)
            process = fork.Process(target=serve, args=arguments, daemon=True, name=f"driftless worker {rank}")
            process.start()
            there.close()
            self._processes.append(process)
            self._causes.append(here)
        try:
            self._share = Share(self._connected(), plan, self.store, store.clients)
        except BaseException:
            self._end(kill=True)
            raise
        self.store.team = self

    def carry_out(self, task: Task) -> Finished:
        plan = self._plan
        with self._together():
            self._order(ROUND, task.blocks[0].t)
            self._share.group.to_all(leaves(task.msg))
            who, done, cohort_gradient = self._share.train(task)
            example = next(iter(done.values()))
            like = [like_outcome(example.outcome, len(work.clients)) for work in task.blocks]
            outcomes = self._share.in_order(who, {i: block.outcome for i, block in done.items()}, like)
            models = self._models(task, who, done, outcomes) if plan.keep_models else []

        def keep() -> None:
            self._accepted = True
            self._share.keep(task, who, done)
            for work, rank, outcome in zip(task.blocks, who, outcomes, strict=True):
                clients = work.clients[outcome.finite].tolist()
                if rank > 0 and leaves(plan.algorithm.init_client(self._x)):
                    self.store.away.update(clients)
                    self.store.touched.update(clients)

        return Finished(outcomes, models, keep, cohort_gradient)

    def _models(self, task: Task, who: list[int], done: dict[int, Done], outcomes: list[Outcome]) -> list[Any]:
        like = [task.msg.x.expand(int(outcome.finite.sum()), -1) for outcome in outcomes]
        models = self._share.in_order(who, {i: block.models for i, block in done.items()}, like)
        clients = [work.clients[outcome.finite].tolist() for work, outcome in zip(task.blocks, outcomes, strict=True)]
        return list(zip(clients, models, strict=True))

    def fetch(self, clients: list[int]) -> list[Tensor]:
        """States of clients of all ranks."""
        with self._together():
            self._order(ROWS, len(clients))
            self._share.group.to_all([torch.tensor(clients)])
            return self._share.rows(clients, self._x)

    def _order(self, what: int, number: int) -> None:
        """Tell the workers what comes, and whether the round before was accepted."""
        self._share.group.to_all([torch.tensor([what, number, int(self._accepted)])])
        self._accepted = False

    def close(self) -> None:
        """Bring the clients' states home and let the workers end; in the middle of something, just end them."""
        try:
            if not self._busy:
                self._bring_home()
                self._order(STOP, 0)
        finally:
            self.store.team = None
            self._end(kill=self._busy)

    def _bring_home(self) -> None:
        away, touched = sorted(self.store.away), set(self.store.touched)
        if away:
            rows = self.fetch(away)
            self.store.put(away, with_leaves(self._plan.algorithm.init_client(self._x), rows))
            self.store.touched = touched

    def _end(self, kill: bool) -> None:
        for process in self._processes:
            if not kill:
                process.join(5)
            if process.is_alive():
                process.kill()
            process.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self) -> Group:
        """Connect in a thread of its own: the wait for a worker that has died would have no end."""
        found: list[Group | BaseException] = []

        def attempt() -> None:
            try:
                found.append(connect(self._folder, 0, self._plan.workers))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        while not found:
            thread.join(0.05)
            if not found and (died := self._death(wait=0)):
                raise WorkerDied(died)
        (group,) = found
        if isinstance(group, BaseException):
            raise group
        return group

    @contextmanager
    def _together(self) -> Generator[None]:
        """Something that all ranks do. A lost connection means that a worker has ended; say which one, and why."""
        self._busy = True
        try:
            yield
        except RuntimeError as error:
            died = self._death(wait=2)
            if died is None:
                raise
            raise WorkerDied(died) from error
        self._busy = False

    def _death(self, wait: float) -> str | None:
        """What ended first: others may only have noticed that. Those that were killed are named before all others."""
        multiprocessing.connection.wait([process.sentinel for process in self._processes], wait)
        if wait:
            time.sleep(0.2)  # the others have noticed by now, too
        ended = [(rank, p) for rank, p in enumerate(self._processes, 1) if p.exitcode is not None]
        causes = {rank: self._cause(rank) for rank, _ in ended}
        killed = [(rank, signal.Signals(-(p.exitcode or 0)).name) for rank, p in ended if (p.exitcode or 0) < 0]
        total = len(self._processes) + 1
        if killed:
            rank, name = killed[0]
            return f"worker {rank} of {total} has ended: it was killed by {name}; was there enough memory?"
        own = [(rank, cause) for rank, cause in causes.items() if cause and "Connection closed by peer" not in cause]
        for rank, cause in own or [(rank, cause) for rank, cause in causes.items() if cause]:
            return f"worker {rank} of {total} has ended: {cause}"
        return None

    def _cause(self, rank: int) -> str | None:
        pipe = self._causes[rank - 1]
        with suppress(EOFError):
            return pipe.recv() if pipe.poll() else None


def like_outcome(example: Outcome, clients: int) -> Outcome:
    return example._replace(totals=example.totals.new_empty(3 + clients))


@contextmanager
def team(plan: RoundPlan, cohort: Schedule, store: ClientStore, x: Vector) -> Generator[Team]:
    together = Team(plan, cohort, store, x)
    try:
        yield together
    finally:
        together.close()


# ------------------------------------------------------------------------------------------------------- other ranks


def serve(
    folder: Path, rank: int, plan: RoundPlan, cohort: Schedule, known: list[int], x: Vector, cause: Connection
) -> None:
    """What a worker does until it is told to stop; what goes wrong is told to rank 0."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach all processes of a terminal or a job: rank 0 decides
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
    torch.set_num_threads(plan.threads)
    parent = os.getppid()
    try:
        share = Share(connect(folder, rank, plan.workers), plan, ClientStore(), known)
        work_for(share, plan, cohort, x)
    except BaseException as error:
        if os.getppid() == parent:
            told = str(error)[:LONGEST_CAUSE]
            if not isinstance(error, InputError):  # whose message says all
                told = f"{type(error).__name__}: {told}\n{traceback.format_exc()[-LONGEST_CAUSE:]}"
            cause.send(told)
        os._exit(1)
    os._exit(0)  # nothing of the parent's, such as its open files, is to be finished twice


def end_with_parent() -> None:
    """Where the kernel can do it (Linux): no worker is left behind when rank 0 is killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def work_for(share: Share, plan: RoundPlan, cohort: Schedule, x: Vector) -> None:
    group, algorithm = share.group, plan.algorithm
    message = algorithm.broadcast(algorithm.init_server(x, Facts(plan.layers, plan.federation.clients)))
    pending: tuple[Task, list[int], dict[int, Done]] | None = None
    while True:
        order = torch.zeros(3, dtype=torch.long)
        group.to_all([order])
        what, number, accepted = order.tolist()
        if accepted and pending is not None:
            share.keep(*pending)
        pending = None
        if what == STOP:
            return
        if what == ROWS:
            clients = torch.zeros(number, dtype=torch.long)
            group.to_all([clients])
            share.rows(clients.tolist(), x)
            continue
        msg = map_leaves(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), message)
        group.to_all(leaves(msg))
        task = task_of(plan, msg, cohort.clients(number, plan.federation.clients, plan.seed), number)
        who, done, _ = share.train(task)
        share.in_order(who, {i: block.outcome for i, block in done.items()}, [])
        if plan.keep_models:
            share.in_order(who, {i: block.models for i, block in done.items()}, [])
        pending = (task, who, done)
