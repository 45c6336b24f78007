"""A run as a value (what stays the same), and THE loop: plays rounds, evaluates, yields complete rows."""

from __future__ import annotations

import copy
import math
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from driftless.algorithm import Algorithm, Facts, Server, Vector
from driftless.data.cohorts import Schedule, sampling_of, typical_cohort
from driftless.data.federation import Federation
from driftless.engine.aggregation import Aggregation
from driftless.engine.attacks import attack_on_uploads, attackers_among
from driftless.engine.batches import examples_of
from driftless.engine.block import BlockTrainer
from driftless.engine.clients import ClientStore
from driftless.engine.cluster import follow, start_cluster
from driftless.engine.divergence import ROUNDS_LOST_BEFORE_STOP, grown_loss, lost_rounds
from driftless.engine.evaluate import Evaluated, Evaluation
from driftless.engine.evaluation_settings import Monitor, columns_of
from driftless.engine.fault_trace import Trace
from driftless.engine.faults import Faults
from driftless.engine.flat import FlatModel
from driftless.engine.history import Event, Record
from driftless.engine.local import LocalTraining
from driftless.engine.losses import Loss
from driftless.engine.memory_needed import MemoryNeeded, check_fits, chosen_store, memory_needed
from driftless.engine.minibatches import Workload
from driftless.engine.module_state import check_unchanged
from driftless.engine.participation import REASONS, Participation, Selection
from driftless.engine.personal import fine_tuning_work, with_personal
from driftless.engine.ranks import all_ranks, current
from driftless.engine.round import NOT_FINITE, Executor, InProcess, RoundPlan, RoundResult, play_round
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import Decision, EngineSettings, decide
from driftless.engine.single import SingleTrainer
from driftless.engine.state import LastModels, State
from driftless.engine.stragglers import Stragglers
from driftless.engine.tree import named_leaves
from driftless.errors import doing

INFERENCE = ("cloud", "aggregate", "clients")
Executors = Callable[["Simulation", RoundPlan, State], AbstractContextManager[tuple[Executor, State]]]
LARGE_MODEL = 100_000
EVALUATION_INTERVALS = (1, 2, 5, 10, 20, 50)


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
    evaluation: Evaluation
    evaluate_every: int
    """0: never."""
    monitor: Monitor | None = None
    """What the run is judged by; None: there is no test set, and nothing else was asked for."""
    schedule: ServerSchedule = field(default_factory=ServerSchedule)
    inference: str | None = None
    """Which model is evaluated; None: the algorithm's own choice."""
    stragglers: Stragglers = field(default_factory=Stragglers)
    faults: Faults = field(default_factory=Faults)
    trace: Trace = field(default_factory=Trace)
    """What the file of faults.trace says."""
    notices: tuple[str, ...] = ()
    """What a user should see before the run."""
    aggregation: Aggregation = field(default_factory=Aggregation)

    @property
    def workload(self) -> Workload:
        wrong = self.attackers if self.faults.attack == "label-flip" else None
        return Workload(self.algorithm, self.model, self.loss, self.training, self.federation, self.seed, wrong)

    @property
    def selection(self) -> Selection:
        """Who takes part in each round."""
        return Selection(self.cohort, self.stragglers, self.faults, self.trace, self.federation.sizes, self.seed)

    @cached_property
    def attackers(self) -> np.ndarray:
        """[clients], bool."""
        return attackers_among(self.faults, self.federation.clients, self.seed)

    @cached_property
    def decision(self) -> Decision:
        """How the rounds are computed, where the settings leave it open."""
        return decide(self.engine, self.workload, typical_cohort(self.cohort, self.federation.clients, self.seed))

    @property
    def resolved_engine(self) -> dict[str, Any]:
        """All settings of the engine, for the record of the run."""
        decided = self.decision._asdict()
        decided.pop("notices")
        settings = self.engine
        given = {"memory": settings.memory, "replay": settings.replay, "store_dtype": settings.store_dtype}
        return decided | given | {"device": str(self.model.device), "store": self.store}

    @cached_property
    def memory_needed(self) -> MemoryNeeded:
        keeps_models = self.inference == "clients"
        all_uploads = self.aggregation.needs_all_uploads
        return memory_needed(self.workload, self.cohort, self.rounds, self.engine, keeps_models, all_uploads)

    @cached_property
    def store(self) -> str:
        """Where client state is kept, "memory" or "disk"."""
        return chosen_store(self.engine.store, self.memory_needed)

    def check_fits(self, folder: Path, *, checkpoints: bool) -> None:
        """Raise unless the run fits into the memory and on the disk of the folder."""
        check_fits(self.store, self.memory_needed, folder, checkpoints=checkpoints)

    def init(self, folder: Path | None = None) -> State:
        """`folder`: where the files of client state are made, if it is kept on disk; None: the temporary folder."""
        x = self.model.initial.clone()
        server = self.algorithm.init_server(x, Facts(self.model.layers, self.federation.clients))
        on_disk = (folder or Path(tempfile.gettempdir())) if self.store == "disk" else None
        store = ClientStore(on_disk, self.engine.stored_as, self.memory_needed.clients)
        models = LastModels(x, self.federation.clients, store.empty()) if self.inference == "clients" else None
        return State(self.algorithm, 0, server, store, x, models)

    def inference_vector(self, state: State) -> Vector:
        """The model that is evaluated."""
        if self.inference is None:
            return self.algorithm.inference(state.server)
        if self.inference == "clients":
            assert state.models is not None
            return state.models.mean()
        return state.aggregate if self.inference == "aggregate" else state.server.x

    def module(self, state: State) -> nn.Module:
        """A copy of the user's module with the parameters that are evaluated."""
        return self.model.fill(self.inference_vector(state))

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of the history that not every round has."""
        return frozenset(columns_of(self.evaluation)) | {"failure", "evaluation_seconds"}

    def is_evaluated(self, t: int) -> bool:
        return bool(self.evaluate_every) and (t % self.evaluate_every == 0 or t == self.rounds)

    def grown_loss(self, rows: Sequence[Mapping[str, float]]) -> str | None:
        """Why a run that ended with these rows has diverged, though its updates were finite; None: it has not."""
        evaluated = self.federation.test is not None and self.is_evaluated(int(rows[-1]["round"]) if rows else 0)
        return grown_loss(rows, self.training, evaluated)


def play(simulation: Simulation, state: State, executors: Executors | None = None) -> Generator[Record]:
    """The rounds after `state`, each complete; raises Diverged when three in a row are lost.

    `executors`: who trains the clients, if not this process and workers of its own.

    The client stores of `state` are updated in place, the rest of it is left as it was. Whoever breaks off early closes
    the generator (contextlib.closing), so that workers end and torch's number of threads is as it was.
    """
    decision = simulation.decision
    plan = plan_of(simulation, simulation.workload)
    steps = simulation.evaluation.finetune_steps
    personal = plan_of(simulation, fine_tuning_work(simulation.workload, steps)) if steps else None
    algorithm, too_few = copy.deepcopy(simulation.algorithm), ""
    with using_threads(decision.threads), (executors or executor_of)(simulation, plan, state) as (executor, state):
        while state.lost < ROUNDS_LOST_BEFORE_STOP:
            if state.round >= simulation.rounds:
                return
            with doing(f"computing round {state.round + 1}"):
                record, too_few = next_round(simulation, plan, state, executor, personal)
            check_unchanged(simulation.algorithm, algorithm)
            state = record.state
            yield record
        norm_0, norm = float(simulation.model.initial.norm()), norms(state.server)["norm_x"]
        raise lost_rounds(state.round, simulation.training, norm_0, norm, too_few)


def follow_rounds(simulation: Simulation) -> None:
    """What `play` does on the other ranks of a launch, as long as rank 0 plays."""
    plan = plan_of(simulation, simulation.workload)
    with using_threads(simulation.decision.threads), without_interrupts(), current().together():
        follow(current().group, plan, simulation.selection, simulation.evaluation, simulation.init().clients)


def plan_of(simulation: Simulation, work: Workload) -> RoundPlan:
    decision = simulation.decision
    trainer = SingleTrainer(work) if decision.kind == "single" else BlockTrainer(work, simulation.engine.replay)
    keep_models = simulation.inference == "clients"
    attack = attack_on_uploads(simulation.faults, simulation.federation.clients, simulation.seed)
    return RoundPlan(trainer, simulation.weighting, decision.block_size, keep_models, simulation.aggregation, attack)


@contextmanager
def executor_of(simulation: Simulation, plan: RoundPlan, state: State) -> Generator[tuple[Executor, State]]:
    """This process, or several, with the state that they share."""
    if simulation.decision.workers == 1:
        yield InProcess(plan, state.clients, simulation.evaluation), state
        return
    workers, selection = simulation.decision.workers, simulation.selection
    with start_cluster(workers, plan, selection, simulation.evaluation, state) as cluster:
        yield cluster, replace(state, clients=cluster.store)


def next_round(
    simulation: Simulation, plan: RoundPlan, state: State, executor: Executor, personal: RoundPlan | None
) -> tuple[Record, str]:
    """Also why its clients were too few for the aggregation, if they were."""
    start, t = time.perf_counter(), state.round + 1
    federation, training = simulation.federation, simulation.training
    taking_part = simulation.selection.of_round(t)
    cohort, faults = taking_part.cohort, simulation.faults
    random = sampling_of(simulation.cohort) == "poisson"  # how many happened to be drawn must not set the server's step
    size = simulation.cohort.size(t, federation.clients) if random else len(cohort)
    algorithm = simulation.schedule.apply(simulation.algorithm, t, size) if size else simulation.algorithm
    sent, evaluation_seconds = {}, 0.0
    if simulation.evaluation.cohort and len(cohort):
        begun = time.perf_counter()
        sent = executor.evaluate(algorithm.broadcast(state.server).x, t, cohort).row
        evaluation_seconds = time.perf_counter() - begun
    result = play_round(plan, algorithm, state.server, executor, cohort, t, taking_part.answerless)
    before, state = state, accepted(state, result, executor if len(cohort) else None, t)
    if result.server is None and not shows_divergence(simulation, taking_part, result):
        state = replace(state, lost=before.lost)

    sizes = federation.sizes[cohort]
    row: dict[str, float] = {"round": t, "lr": training.lr_at(t), "cohort": len(cohort)}
    row |= {"skipped": len(result.left_out), "examples": int(examples_of(training.in_round(t), sizes).sum())}
    row |= sent | result.row | norms(state.server) | {"seconds": time.perf_counter() - start - evaluation_seconds}
    row["simulated_time"] = taking_part.time
    row |= taking_part.row if faults.lose_clients else {}
    row |= {"attackers": int(simulation.attackers[cohort].sum())} if faults.attackers else {}
    accuracies = training_accuracies(row)
    row |= failure_of(before.accuracies, accuracies)
    found = Evaluated({}, {}, ())
    if simulation.is_evaluated(t):
        start, x = time.perf_counter(), simulation.inference_vector(state)
        found = executor.evaluate(x, t)
        found = with_personal(found, personal, x, t, simulation.evaluation.ignored) if personal else found
        row |= found.row
        evaluation_seconds += time.perf_counter() - start
    row |= {"evaluation_seconds": evaluation_seconds} if evaluation_seconds else {}
    events = (
        losses_of(t, taking_part)
        + events_of(t, result, cohort)
        + [Event(t, what) for what in found.notices if what not in state.noticed]
    )
    noticed = state.noticed.union(found.notices)
    state = replace(state, accuracies=accuracies, noticed=noticed)
    # What is not a finite number is left out, like what was not measured: JSON has no infinity.
    row = {name: value for name, value in row.items() if math.isfinite(value)}
    module = partial(simulation.module, state)
    record = Record(
        t, state.server.x, state.aggregate, state.server, row, tuple(cohort.tolist()), tuple(events), state, module,
        found.clients,
    )  # fmt: skip
    return record, result.too_few


def accepted(state: State, result: RoundResult, executor: Executor | None, t: int) -> State:
    """The state after the round; a lost round changes nothing. Without `executor`: no client was trained."""
    if result.server is None or result.aggregate is None:
        return replace(state, round=t, lost=state.lost + 1)
    for clients, models in executor.accept() if executor else ():
        assert state.models is not None
        state.models.put(clients, models)
    return replace(state, round=t, server=result.server, aggregate=result.aggregate, lost=0)


def training_accuracies(row: Mapping[str, float]) -> dict[str, float]:
    """Of the model that was sent out, if that is measured, then of the local training."""
    return {name: row[name] for name in ("cohort_accuracy", "train_accuracy") if name in row}


def failure_of(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, int]:
    """Judged by the first of the accuracies: in local training clients repair a model that has failed."""
    name = next(iter(now), None)
    return {} if name is None else {"failure": int(has_halved(before.get(name), now[name]))}


def has_halved(before: float | None, now: float) -> bool:
    """A catastrophic failure: the training accuracy fell to half or less in one round (large-cohort paper, 3.1)."""
    return before is not None and before > 0 and now <= before / 2


def evaluation_interval(
    model: FlatModel, federation: Federation, training: LocalTraining, cohort: Schedule, seed: int
) -> int:
    """Every round; for a large model so seldom that evaluation takes at most about a tenth of the time of training."""
    if federation.test is None or model.size < LARGE_MODEL:
        return 1
    clients = typical_cohort(cohort, federation.clients, seed)
    trained = 3 * examples_of(training.in_round(1), federation.sizes[clients]).sum()  # forward and backward
    often = [every for every in EVALUATION_INTERVALS if len(federation.test[1]) / every <= 0.1 * trained]
    return often[0] if often else EVALUATION_INTERVALS[-1]


def norms(server: Server) -> dict[str, float]:
    """norm_x, and norm_h, norm_c, norm_m where the server keeps such a vector."""
    named = ((name.rpartition(".")[2], leaf) for name, leaf in named_leaves(server) if leaf.dim() and leaf.numel())
    # In double precision the norm of a huge but finite vector is finite, too.
    return {
        f"norm_{name}": float(torch.linalg.vector_norm(leaf, dtype=torch.float64))
        for name, leaf in named
        if name in ("x", "h", "c", "m")
    }


def shows_divergence(simulation: Simulation, taking_part: Participation, result: RoundResult) -> bool:
    """Whether a lost round may be due to the training, and not to clients that attack, are lost or do not answer."""
    arrived = [
        client for client in taking_part.cohort.tolist() if result.left_out.get(client, NOT_FINITE) == NOT_FINITE
    ]
    if simulation.faults.attack == "nan":
        arrived = [client for client in arrived if not simulation.attackers[client]]
    complete = len(arrived) == len(taking_part.cohort) and not any(map(len, taking_part.lost.values()))
    return bool(arrived) and (complete or not result.too_few)


def losses_of(t: int, taking_part: Participation) -> list[Event]:
    """An event for each reason why clients were lost."""
    lost = taking_part.lost.items()
    return [Event(t, REASONS[reason], tuple(clients.tolist())) for reason, clients in lost if len(clients)]


def events_of(t: int, result: RoundResult, cohort: np.ndarray) -> list[Event]:
    clients = sorted(result.left_out)
    reasons = dict.fromkeys(result.left_out[client] for client in clients)
    events = [Event(t, why, tuple(c for c in clients if result.left_out[c] == why)) for why in reasons]
    if result.server is None and not len(cohort):
        events.append(Event(t, "round without clients: server state kept as it was"))
    elif result.server is None:
        why = result.too_few or "no finite result"
        events.append(Event(t, f"round lost: {why}, server state kept as it was"))
    return events


@contextmanager
def without_interrupts() -> Generator[None]:
    """Ctrl-C and SIGTERM reach all ranks of a terminal or a job: rank 0 decides."""
    if threading.current_thread() is not threading.main_thread():
        yield  # whoever runs us there handles signals
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


ONE_RUN = threading.RLock()


@contextmanager
def one_run_at_a_time() -> Generator[None]:
    """Runs of several threads follow one another: torch's generator and number of threads belong to the process.

    The ranks of a launch play them together.
    """
    with ONE_RUN, torch.inference_mode(False), all_ranks():
        yield


@contextmanager
def using_threads(number: int) -> Generator[None]:
    before = torch.get_num_threads()
    if number != before:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
