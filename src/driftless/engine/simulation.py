"""A run as a value and a step: everything that stays the same, everything that changes, one round."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Facts, Server, Vector
from driftless.data.cohorts import Schedule
from driftless.data.federation import Federation
from driftless.engine.batches import examples_of
from driftless.engine.block import RunFacts, SingleRunner
from driftless.engine.choose import EngineSettings, choose, using_threads
from driftless.engine.clients import ClientStore
from driftless.engine.cluster import team
from driftless.engine.evaluate import evaluate
from driftless.engine.flat import FlatModel
from driftless.engine.history import Event, Record
from driftless.engine.local import LocalStep, LocalTraining, loss_gradient, plain_gradient
from driftless.engine.losses import Loss
from driftless.engine.round import Alone, Crew, RoundPlan, RoundResult, run_round
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.tree import named_leaves
from driftless.errors import Diverged
from driftless.random import torch_stream

ROUNDS_LOST_BEFORE_STOP = 3
INFERENCE = ("cloud", "aggregate", "clients")


@dataclass(frozen=True)
class State:
    """Everything that changes from round to round. A run continues from it as if it had never stopped."""

    algorithm: Algorithm
    """Whose state it is."""
    round: int
    server: Server
    clients: ClientStore
    aggregate: Vector
    models: LastModels | None
    lost: int = 0
    """Rounds lost in a row."""

    def copy(self) -> State:
        models = None if self.models is None else self.models.copy()
        return replace(self, clients=self.clients.copy(), models=models)


class LastModels:
    """The mean over all clients' last models, x^0 for those never sampled: FedDyn's "all" inference model."""

    def __init__(self, x: Vector, clients: int) -> None:
        self._x0 = x
        self._clients = clients
        self.store = ClientStore()
        self.moved = torch.zeros_like(x, dtype=torch.float64)
        """Sum over clients of (last model - x^0)."""

    def put(self, clients: list[int], models: Tensor) -> None:
        before = self.store.get(clients, (self._x0,))[0]
        self.moved = self.moved + (models.double() - before.double()).sum(0)
        self.store.put(clients, (models,))

    def mean(self) -> Vector:
        return self._x0 + (self.moved / self._clients).to(self._x0.dtype)

    def copy(self) -> LastModels:
        twin = LastModels(self._x0, self._clients)
        twin.store, twin.moved = self.store.copy(), self.moved
        return twin


@dataclass(frozen=True)
class Simulation:
    """Everything that stays the same during a run."""

    algorithm: Algorithm
    federation: Federation
    model: FlatModel
    training: LocalTraining
    cohort: Schedule
    loss: Loss
    weighting: str
    seed: int
    engine: EngineSettings
    rounds: int
    """Planned; a run may end earlier."""
    schedule: ServerSchedule = field(default_factory=ServerSchedule)
    inference: str | None = None
    """None: the algorithm's own choice."""
    notices: tuple[str, ...] = ()
    """What the user should know of how the run was put together."""

    def init(self) -> State:
        x = self.model.initial
        facts = Facts(self.model.layers, self.federation.clients)
        models = LastModels(x, self.federation.clients) if self.inference == "clients" else None
        return State(self.algorithm, 0, self.algorithm.init_server(x, facts), ClientStore(), x, models)

    def plan(self) -> RoundPlan:
        """The runner and its blocks; what is left open is measured here."""
        facts = RunFacts(
            LocalStep(self.algorithm, loss_gradient(self.model, self.loss), self.training),
            plain_gradient(self.model, self.loss),
            self.federation,
            self.seed,
            self.model.uses_dropout,
        )
        first = self.cohort.clients(1, self.federation.clients, self.seed)
        with torch_stream(self.seed, "trial"):
            choice = choose(self.engine, facts, self.model, self.loss, first, self.rounds)
        return RoundPlan(
            choice.runner, self.federation, self.training, self.weighting, choice.block_size, self.model.layers,
            self.seed, self.inference == "clients", choice.threads, self.engine.workers, choice.compiled,
            (*self.notices, *choice.notices),
        )  # fmt: skip

    def step(self, plan: RoundPlan, state: State, crew: Crew | None = None) -> Played:
        """One round. The client stores of `state` are updated in place; the rest of it is left as it was."""
        crew = crew or Alone(plan, state.clients)
        start, t = time.perf_counter(), state.round + 1
        clients = self.cohort.clients(t, self.federation.clients, self.seed)
        algorithm = self.schedule.apply(self.algorithm, t, len(clients))
        result = run_round(plan, algorithm, state.server, crew, clients, t)
        events = events_of(t, result)
        if result.server is None:
            state = replace(state, round=t, lost=state.lost + 1)
        else:
            state = self._commit(state, result, t)
        metrics = {"round": t, "lr": self.training.lr_at(t), "cohort": len(clients), "skipped": len(result.skipped)}
        metrics["examples"] = int(examples_of(self.training, self.federation.sizes[clients]).sum())
        metrics |= result.metrics | norms(state.server) | {"seconds": time.perf_counter() - start}
        return Played(state, Record(t, state.server.x, state.aggregate, state.server, metrics), events)

    def _commit(self, state: State, result: RoundResult, t: int) -> State:
        result.finished.keep()
        if state.models is not None:
            for clients, models in result.finished.models:
                state.models.put(clients, models)
        return replace(state, round=t, server=result.server, aggregate=result.aggregate, lost=0)

    def inference_vector(self, state: State) -> Vector:
        """The model that is evaluated."""
        if self.inference is None:
            return self.algorithm.inference(state.server)
        if self.inference == "clients":
            assert state.models is not None
            return state.models.mean()
        return state.aggregate if self.inference == "aggregate" else state.server.x

    def test(self, state: State) -> dict[str, float]:
        """test_loss and, for labels, test_accuracy; nothing when there is no test set."""
        if self.federation.test is None:
            return {}
        with torch_stream(self.seed, "evaluate", state.round):
            measured = evaluate(self.model, self.loss, self.inference_vector(state), self.federation.test)
        return {f"test_{name}": value for name, value in measured.items()}


class Played(NamedTuple):
    """A round that has been played."""

    state: State
    record: Record
    events: list[Event]


def play(simulation: Simulation, plan: RoundPlan, state: State, rounds: int) -> Generator[Played]:
    """The rounds after `state` up to round `rounds`; raises Diverged when three in a row are lost.

    Whoever breaks off early closes it (contextlib.closing), so that workers end and threads are as they were.
    """
    with using_threads(plan.threads), crew_of(plan, simulation.cohort, state) as (crew, state):
        while state.lost < ROUNDS_LOST_BEFORE_STOP:
            if state.round >= rounds:
                return
            state, record, events = simulation.step(plan, state, crew)
            yield Played(state, record, events)
        raise diverged(state.round, state, simulation)


@contextmanager
def crew_of(plan: RoundPlan, cohort: Schedule, state: State) -> Generator[tuple[Crew, State]]:
    """This process, or it and its workers, with the state that they share."""
    if plan.workers == 1:
        yield Alone(plan, state.clients), state
        return
    with team(plan, cohort, state.clients, state.server.x) as together:
        yield together, replace(state, clients=together.store)


def norms(server: Server) -> dict[str, float]:
    """norm_x, and norm_h, norm_c, norm_m where the server keeps such a vector."""
    named = ((name.rpartition(".")[2], leaf) for name, leaf in named_leaves(server) if leaf.dim() and leaf.numel())
    # In double precision the norm of a huge but finite vector is finite, too.
    return {
        f"norm_{name}": float(torch.linalg.vector_norm(leaf, dtype=torch.float64))
        for name, leaf in named
        if name in ("x", "h", "c", "m")
    }


def events_of(t: int, result: RoundResult) -> list[Event]:
    events: list[Event] = []
    skipped = tuple(sorted(result.skipped))
    if skipped:
        events.append(Event(t, "update not finite: left out of the round, state kept as it was", skipped))
    if result.server is None:
        events.append(Event(t, "round lost: no finite result, server state kept as it was"))
    return events


def diverged(t: int, state: State, simulation: Simulation) -> Diverged:
    first = t - ROUNDS_LOST_BEFORE_STOP + 1
    norm_0, norm = float(simulation.model.initial.norm()), norms(state.server)["norm_x"]
    training = simulation.training
    if norm > 100 * max(norm_0, 1.0):
        cause = f"the server model had grown to norm {norm:.3g} (from {norm_0:.3g}): the server's steps are too long"
        remedy = "a smaller server_lr (or beta, mu of the algorithm)"
    else:
        cause = f"local steps with lr={training.lr_at(first):g} blow up from a model of ordinary norm {norm:.3g}"
        remedy = f"a smaller local.lr{'' if training.clip_norm else ', or local.clip_norm=10'}"
    return Diverged(
        first,
        f"diverged at round {first}: rounds {first} to {t} gave no finite update. Likely cause: {cause}. Try {remedy}.",
    )


def resolved_engine(plan: RoundPlan) -> dict[str, Any]:
    """What the engine is, for the record of the run."""
    return {
        "kind": "single" if isinstance(plan.runner, SingleRunner) else "block",
        "block_size": plan.block_size,
        "threads": plan.threads,
        "workers": plan.workers,
        "compile": "on" if plan.compiled else "off",
    }
