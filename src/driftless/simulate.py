"""`driftless.simulate`: check everything, then run the rounds."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from driftless import models
from driftless.algorithm import Algorithm, Plan, base_server_lr
from driftless.algorithms import ALGORITHMS
from driftless.data.cohorts import Cohort, Schedule, as_schedule, known_sizes, planned_size, sampling_of
from driftless.data.constructors import advice
from driftless.data.federation import Federation
from driftless.engine import channels_last
from driftless.engine.aggregation import Aggregation, as_aggregation
from driftless.engine.augment import check_images
from driftless.engine.batches import check_steps
from driftless.engine.check import check_single
from driftless.engine.device import CPU, PRECISIONS, as_device, placed, state_dtype
from driftless.engine.evaluation_settings import EvaluationSettings, evaluation_of, monitor_of
from driftless.engine.fault_trace import read_trace
from driftless.engine.faults import Faults
from driftless.engine.fingerprint import facts
from driftless.engine.flat import FlatModel
from driftless.engine.history import Event, History, Record, with_own_values
from driftless.engine.local import LocalTraining, check_agreement
from driftless.engine.losses import Loss, default_loss
from driftless.engine.metrics import Given
from driftless.engine.minibatches import Workload
from driftless.engine.model_fit import check_fit, doubts
from driftless.engine.participation import check_faults
from driftless.engine.ranks import current as current_ranks
from driftless.engine.resident import Output
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.engine.simulation import (
    INFERENCE,
    Simulation,
    evaluation_interval,
    follow_rounds,
    one_run_at_a_time,
    play,
)
from driftless.engine.state import State
from driftless.engine.stragglers import Stragglers
from driftless.engine.tree import Tree, named_leaves
from driftless.engine.unused_names import unused_names
from driftless.errors import (
    LARGEST_SEED,
    Diverged,
    InputError,
    check_choice,
    check_type,
    check_whole,
    doing,
    unknown,
)
from driftless.progress import rounds_bar
from driftless.result import Result, name_of, received_result, send_result


@one_run_at_a_time()
def simulate(
    algorithm: Algorithm | str,
    federation: Federation,
    model: nn.Module | str,
    *,
    rounds: int,
    cohort: Cohort,
    local: LocalTraining | None = None,
    loss: Loss | None = None,
    output: Output | None = None,
    weighting: str | None = None,
    seed: int = 0,
    engine: str | EngineSettings = "auto",
    dtype: torch.dtype = torch.float32,
    evaluate_every: int = 1,
    on_round: Callable[[Record], object] | None = None,
    server: ServerSchedule | None = None,
    faults: Faults | None = None,
    inference: str | None = None,
    state: State | None = None,
    metrics: Given = None,
    evaluation: EvaluationSettings | None = None,
    device: str = "auto",
    aggregation: str | Aggregation = "mean",
    progress: bool = False,
) -> Result:
    """Run a federated algorithm in this process and return its history and final model.

    Ranks that torchrun has started compute together (docs/cluster.md); `on_round` is called on rank 0. Calls from
    several threads follow one another.

    Args:
        algorithm: A name of `driftless list algorithms`, or an instance such as `driftless.algorithms.FedProx(mu=0.1)`.
        federation: The data: `driftless.load(...)` or one of `Federation.from_...`.
        model: A name of `driftless list models`, or a module whose current parameters are x^0; it is copied, never
            changed.
        rounds: Rounds in all, at least 1; counted from the beginning, also when `state` continues a run.
        cohort: Who takes part in a round: a number of clients, a fraction of them, a schedule of
            `driftless.data.cohorts`, a list with the client ids of each round, or a function (round, clients, rng) ->
            ids.
        local: What a client does in a round; None: `LocalTraining()`, 5 epochs of batches of 10 with lr 0.1, or what
            the algorithm prescribes (FedSGD).
        loss: A function (outputs, targets) -> mean over the batch; None: cross-entropy for labels, half the squared
            error for numbers.
        output: A function that takes the tensor of outputs out of what the model returns, such as `lambda o: o.logits`;
            None: the model returns this tensor.
        weighting: How uploads are weighted in their mean: "examples", "uniform", or None for the algorithm's own.
        seed: Decides everything that is drawn, and the parameters of a model that is given by its name.
        engine: "single" (one client after the other), "block" (a block of clients at once), "auto" (decided by the
            model), or an `EngineSettings`. `result.engine` has what was decided.
        dtype: torch.float32, torch.float64, or torch.bfloat16 for the forward and backward passes of training only.
        evaluate_every: Rounds between two evaluations; the last round is always evaluated. 0: never.
        on_round: A function that is called after each round with a `Record`. It gets copies; numbers that it adds to
            `record.metrics` are kept in the history.
        server: Scaling and warm-up of the server learning rate; None: it stays as the algorithm has it.
        faults: Clients that drop out, come too late, are not available or attack; None: nothing goes wrong.
        inference: Which model is evaluated: "cloud" (the server's), "aggregate" (the mean of the round's client
            models), "clients" (the mean of the last models of all clients), or None for the algorithm's own choice.
        state: `result.state` of an earlier part of the run, to continue it; None: from the beginning.
        metrics: Names or functions (outputs, targets) -> number that each evaluation measures besides loss and
            accuracy; short for the field of this name of `evaluation`.
        evaluation: How the model is judged; None: `EvaluationSettings()`.
        device: "auto" (an accelerator if there is one), "cpu", "cuda", "cuda:1", "mps" ...
        aggregation: "mean", or a rule that a minority of attackers cannot move far, "median", "krum" ..., or an
            `Aggregation`.
        progress: True shows a progress bar in a terminal or a notebook; elsewhere nothing is shown.

    Returns:
        The history, the final vectors, the trained module, events, and the state to continue from.

    Raises:
        InputError: Before any work, when something does not fit.
        Diverged: When training gives no finite update for several rounds in a row.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=20, partition="iid", seed=0)
        >>> local = driftless.LocalTraining(lr=0.1, epochs=1)
        >>> first = driftless.simulate("fedavg", federation, "logistic", rounds=2, cohort=5, local=local)
        >>> first.history["round"]
        [1, 2]

        Continue the run for a third round:

        >>> all_rounds = driftless.simulate(
        ...     "fedavg", federation, "logistic", rounds=3, cohort=5, local=local, state=first.state
        ... )
        >>> all_rounds.history["round"]
        [3]
    """
    check_choice("progress", progress, (True, False))
    if on_round is not None:
        check_type("on_round", on_round, Callable, "a function of a driftless.Record", "leave it out if you need none")
    simulation = prepare(
        algorithm, federation, model, rounds=rounds, cohort=cohort, local=local, loss=loss, weighting=weighting,
        seed=seed, engine=as_engine(engine), dtype=dtype, evaluate_every=evaluate_every, server=server,
        inference=inference, evaluation=as_evaluation(metrics, evaluation), output=output, device=device, faults=faults,
        aggregation=as_aggregation(aggregation),
    )  # fmt: skip
    for sentence in unused_names(simulation.algorithm):
        warnings.warn(sentence, stacklevel=3)  # where simulate was called, through the lock around it
    simulation.check_fits(Path(tempfile.gettempdir()), checkpoints=False)
    current = simulation.init()
    if state is not None:
        check_type("state", state, State, "the state of a run", "give result.state of the first part")
        check_state(simulation, state, rounds)
        current = state.copy().on(simulation.model.device)
    if isinstance(model, nn.Module):
        check_single(simulation.workload, model)
    ranks = current_ranks()
    ranks.agree(facts(simulation) if ranks.size > 1 else {})
    if ranks.rank > 0:
        follow_rounds(simulation)
        return received_result(ranks, simulation)
    on_disk = (
        (f"client state is on disk: {simulation.memory_needed.text('disk')}",) if simulation.store == "disk" else ()
    )
    history, events = History(), [Event(0, what) for what in simulation.notices + simulation.decision.notices + on_disk]
    client_metrics: dict[str, list[float]] = {}
    monitored = simulation.monitor.column if simulation.monitor else ""
    try:
        with (
            rounds_bar(name_of(simulation.algorithm), rounds, quiet=not progress) as bar,
            closing(play(simulation, current)) as records,
        ):
            for record in records:
                current = record.state
                events += record.events
                client_metrics = dict(record.client_metrics) or client_metrics
                bar.show_round(record.round, record.metrics, monitored)
                row = record.metrics
                if on_round is not None:
                    given = record.copy()
                    with doing(f"calling on_round after round {record.round}"):
                        on_round(given)
                    row = with_own_values(row, given.metrics, simulation.columns, "on_round")
                history.append(row)
    except Diverged as error:
        error.history, error.events = history, events
        raise
    if grown := simulation.grown_loss(list(history)):
        events.append(Event(current.round, grown))
    result = Result(
        history, current.server.x.cpu(), simulation.inference_vector(current).cpu(), current.on(CPU), events,
        simulation.resolved_engine, client_metrics, simulation.model,
    )  # fmt: skip
    send_result(ranks, result)
    return result


def prepare(
    algorithm: Algorithm | str,
    federation: Federation,
    model: nn.Module | str,
    *,
    rounds: int,
    cohort: Cohort,
    local: LocalTraining | None,
    loss: Loss | None,
    weighting: str | None,
    seed: int,
    engine: EngineSettings,
    dtype: torch.dtype,
    evaluate_every: int | None,
    server: ServerSchedule | None,
    inference: str | None,
    weights: str | None = None,
    stragglers: Stragglers | None = None,
    faults: Faults | None = None,
    evaluation: EvaluationSettings | None = None,
    output: Output | None = None,
    device: str = "auto",
    aggregation: Aggregation | None = None,
) -> Simulation:
    """Check all that can be checked before any work, and put the run together.

    `weights`: a file with the parameters at which a model given by its name begins. `evaluate_every=None`: as often as
    is cheap.
    """
    algorithm = as_algorithm(algorithm)
    check_types(federation, model, local, server, faults)
    faults, stragglers = faults or Faults(), stragglers or Stragglers()
    local = LocalTraining(**algorithm.local_must_be) if local is None else local  # pyright: ignore[reportArgumentType]
    server = ServerSchedule() if server is None else server
    schedule = as_schedule(cohort)
    check_whole("rounds", rounds, 1)
    check_whole("seed", seed, 0, most=LARGEST_SEED)
    check_agreement(algorithm, local)
    check_choice("weighting", weighting, (None, "examples", "uniform"))
    check_choice("inference", inference, (None, *INFERENCE))
    check_choice("dtype", dtype, PRECISIONS)
    place = as_device(device)
    check_whole("evaluate_every", evaluate_every, 0, other=None)
    schedule.check(federation.clients, rounds)
    aggregation = as_aggregation(aggregation)
    aggregation.check_cohorts(known_sizes(schedule, federation.clients, rounds))
    local = local.for_rounds(rounds)
    check_no_empty_client(federation)
    check_steps(local, federation.sizes)
    check_faults(faults, schedule, stragglers, federation)
    trace = read_trace(faults.trace, federation.clients)
    check_images(local.augment, federation.inputs)
    if not server.is_constant:
        base_server_lr(algorithm)
    module = as_module(model, federation, seed)
    notices = unused_names(algorithm) + (() if weights is None else models.load_weights(module, weights))
    if output is not None:
        remedy = "give one such as lambda o: o.logits"
        check_type("output", output, Callable, "a function of what the model returns", remedy)
    flat = FlatModel(module, dtype, output, place)
    algorithm = planned(
        algorithm, flat, schedule, local, rounds=rounds, clients=federation.clients, weighting=weighting,
        inference=inference, aggregation=aggregation.rule, seed=seed,
    )  # fmt: skip
    notices += algorithm.notices()
    if flat.frozen_statistics:
        notices += (f"layers in eval mode keep their statistics: {', '.join(flat.frozen_statistics)}",)
    if number := flat.dropouts_in_eval:
        notices += (
            f"dropout layers in eval mode drop nothing: {number}; to train with them, call train() on the model",
        )
    federation, where = placed(federation.to(state_dtype(dtype), train_inputs=False), place)
    notices += where
    loss = default_loss(federation.targets) if loss is None else loss
    outputs = check_fit(flat, federation, loss)
    notices += doubts(outputs, federation, loss)
    channels_last.use_if_it_works(Workload(algorithm, flat, loss, local, federation, seed))
    settings = EvaluationSettings() if evaluation is None else evaluation
    of = evaluation_of(settings, flat, loss, federation, local, seed, outputs)
    monitor = None if evaluate_every == 0 else monitor_of(settings, of)
    if evaluate_every is None:
        evaluate_every = evaluation_interval(flat, of.federation, local, schedule, seed)
    elif evaluate_every == 0 and replace(settings, cohort=False) != EvaluationSettings():
        raise InputError("evaluate_every=0 never evaluates, and an evaluation is set; set it to 1 or more.")
    return Simulation(
        algorithm, federation, flat, local, schedule, loss, weighting or algorithm.weighting, seed, engine, rounds, of,
        evaluate_every, monitor, server, inference, stragglers, faults, trace, notices, aggregation,
    )  # fmt: skip


def planned(
    algorithm: Algorithm, model: FlatModel, schedule: Schedule, local: LocalTraining, *, rounds: int, clients: int,
    weighting: str | None, inference: str | None, aggregation: str, seed: int,
) -> Algorithm:  # fmt: skip
    """The algorithm with what it takes from the plan of the run."""
    number = planned_size(schedule, clients, rounds)
    steps: Any = local.epochs if local.steps is None and local.batch_size is None else local.steps
    plan = Plan(
        rounds, clients, number, sampling_of(schedule), weighting or algorithm.weighting, steps, inference, aggregation,
        seed, model.layers,
    )  # fmt: skip
    return algorithm.for_run(plan)


def as_algorithm(algorithm: Algorithm | str) -> Algorithm:
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise InputError(
            f"algorithm must be a name or an instance of driftless.Algorithm, got {algorithm!r}; "
            "for a class, give an instance, such as driftless.algorithms.FedAvg()."
        )
    if algorithm not in ALGORITHMS:
        raise unknown("algorithm", algorithm, ALGORITHMS)
    return ALGORITHMS[algorithm]()


def as_engine(engine: str | EngineSettings) -> EngineSettings:
    return engine if isinstance(engine, EngineSettings) else EngineSettings(engine)


def as_evaluation(metrics: Given, evaluation: EvaluationSettings | None) -> EvaluationSettings:
    """`metrics` is short for the field of that name."""
    make = "write evaluation=driftless.EvaluationSettings(metrics=['f1'])"
    check_type("evaluation", evaluation, EvaluationSettings | None, "a driftless.EvaluationSettings", make)
    if evaluation is None:
        return EvaluationSettings(metrics)
    if metrics is not None and evaluation.metrics is not None:
        raise InputError("metrics are given twice, by metrics= and by evaluation=; give them once.")
    return evaluation if metrics is None else replace(evaluation, metrics=metrics)


def as_module(model: nn.Module | str, federation: Federation, seed: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    return models.build(model, federation.input_shape, federation.classes, seed, federation.target_shape)


def check_types(federation: object, model: object, local: object, server: object, faults: object) -> None:
    check_type("federation", federation, Federation, "a driftless.Federation", advice(federation))
    check_type("model", model, nn.Module | str, "a model's name or an nn.Module", "give an instance, not a class")
    make = "write local=driftless.LocalTraining(lr=0.1, epochs=5)"
    check_type("local", local, LocalTraining | None, "a driftless.LocalTraining", make)
    make = "write server=driftless.ServerSchedule(warmup_rounds=10)"
    check_type("server", server, ServerSchedule | None, "a driftless.ServerSchedule", make)
    make = "write faults=driftless.Faults(dropout=0.1)"
    check_type("faults", faults, Faults | None, "a driftless.Faults", make)


def check_no_empty_client(federation: Federation) -> None:
    empty = (federation.sizes == 0).nonzero()[0]
    if len(empty):
        raise InputError(f"client {empty[0]} has no examples (as have {len(empty) - 1} others); leave it out.")


def check_state(simulation: Simulation, state: State, rounds: int) -> None:
    """Does the state to continue belong to this run?"""
    fresh = simulation.init()
    if state.server.x.dtype != fresh.server.x.dtype:
        raise InputError(
            f"the state to continue is in {state.server.x.dtype}, the run in {fresh.server.x.dtype}; give that dtype."
        )
    if state.server.x.shape != fresh.server.x.shape:
        raise InputError(
            f"the state to continue has {len(state.server.x)} parameters, the model {simulation.model.size}; "
            "give the model of the first part of the run."
        )
    same_kind = kind_of(state.algorithm) == kind_of(simulation.algorithm)
    if not same_kind or structure(state.server) != structure(fresh.server):
        raise InputError(
            f"the state to continue is of {state.algorithm}, the run of {simulation.algorithm}; "
            "give the algorithm it came from."
        )
    if state.round >= rounds:
        raise InputError(
            f"the state is of round {state.round}, rounds={rounds} is not beyond it; rounds counts from the beginning."
        )
    if simulation.inference == "clients" and state.models is None:
        raise InputError(
            "inference='clients' needs the clients' models from the beginning, and the state has none; "
            "run the first part with inference='clients', too."
        )


def kind_of(algorithm: Algorithm) -> tuple[type, ...]:
    """The class, and for a wrapper the class of what it wraps."""
    inner = getattr(algorithm, "inner", None)
    return (type(algorithm), *(kind_of(inner) if isinstance(inner, Algorithm) else ()))


def structure(tree: Tree) -> list[tuple[str, torch.Size]]:
    return [(name, leaf.shape) for name, leaf in named_leaves(tree)]
