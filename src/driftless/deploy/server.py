"""The server of a federation: who takes part, then the rounds of a run, written to a run directory."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol

from flwr.app import RecordDict

from driftless.config.build import simulation_of
from driftless.config.resolution import Config
from driftless.data.federation import Federation
from driftless.deploy.executor import Nodes, Transport, refuse_refusal
from driftless.deploy.protocol import HEADER, JOIN, PROTOCOL, Joined, Request, header, read_header
from driftless.deploy.refusal import Refused
from driftless.deploy.roster import (
    Roster,
    check_joined,
    federation_of,
    new_run,
    read_roster,
    roster_of,
    write_roster,
)
from driftless.deploy.settings import Deployment, split
from driftless.deploy.task import Task
from driftless.engine.history import Event, Record
from driftless.engine.round import RoundPlan
from driftless.engine.simulation import Simulation, play
from driftless.engine.state import State
from driftless.errors import InputError
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun, command, is_run, refuse_existing
from driftless.runs.environment import federation_summary
from driftless.runs.run import Player, check_same_run, start_or_resume

log = logging.getLogger("flwr")
DEFAULT_OUTPUT = "runs/federation"
JOIN_SECONDS = 180.0
"""How long a node may take to say who it is, before it is asked again: it may have to load its data."""
POLL_SECONDS = 1.0


class Network(Transport, Protocol):
    def nodes(self) -> list[int]:
        """The ids of the nodes that are connected."""
        ...


class ShowRounds(Callback):
    """A line a round in the log of the app, and one for each event."""

    writes_nothing = True

    def on_round(self, record: Record) -> None:
        row = record.metrics
        shown = ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "epsilon")
        values = ", ".join(f"{name} {row[name]:.4f}" for name in shown if name in row)
        arrived = int(row["cohort"] - row["skipped"])
        log.info("round %d: %d of %d clients, %s", record.round, arrived, int(row["cohort"]), values)

    def on_event(self, event: Event) -> None:
        log.warning("round %d: %s", event.round, event.text())


def coordinate(network: Network, run_config: Mapping[str, Any], task: Task, test: Any) -> StoredRun:
    """Play the run of these settings with the nodes of the network: from the beginning, or from where it stopped."""
    deployment, settings = split(run_config)
    deploy = Deployment(**deployment)
    directory = Path(str(settings.get("run.output") or DEFAULT_OUTPUT))
    refuse_ended(directory)
    roster = read_roster(directory)
    if roster is None:
        refuse_existing(directory)
        with task.resolved(settings, None):
            pass  # mistakes in the settings are found before anybody is waited for
        roster = joined_nodes(network, deploy)
        write_roster(directory, roster)
    elif len(roster.members) != deploy.clients:
        raise InputError(
            f"the run in '{directory}' has {len(roster.members)} clients, and deploy.clients is {deploy.clients}; set "
            "it to that number, or choose another run.output."
        )
    federation = federation_of(roster, test)
    with task.resolved(settings, federation) as resolved:

        @contextmanager
        def executors(simulation: Simulation, plan: RoundPlan, state: State) -> Generator[tuple[Nodes, State]]:
            every = resolved.config.run.checkpoint_every
            yield Nodes(network, roster, deploy, plan, state.clients, simulation.evaluation, every), state

        def played(simulation: Simulation, state: State) -> Generator[Record]:
            return play(simulation, state, executors)

        player = Player(simulation_of_nodes, played, summary)
        if is_run(directory):
            check_same_run(directory, resolved, player)
            log.info("'%s' holds a run that has not ended; it is continued.", directory)
        stored = start_or_resume(directory, [ShowRounds()], resolved, player=player)
    log.info("The run has ended (%s). Look at it with: %s", status_of(stored), command("report", directory))
    return stored


def simulation_of_nodes(config: Config) -> Simulation:
    simulation = simulation_of(config)
    for name in ("finetune_steps", "cohort"):
        if getattr(simulation.evaluation, name):
            raise InputError(f"evaluate.{name} needs the data of clients, which their nodes have; leave it out.")
    return simulation


def refuse_ended(directory: Path) -> None:
    if is_run(directory) and StoredRun(directory).result is not None:
        raise InputError(
            f"the run in '{directory}' has ended; look at it with: {command('report', directory)}. For a new run "
            "choose another run.output."
        )


def status_of(stored: StoredRun) -> str:
    return str((stored.result or {}).get("status", "not finished"))


def summary(federation: Federation) -> dict[str, Any]:
    """The server does not know the clients' labels."""
    return federation_summary(federation) | {"labels": None}


def joined_nodes(network: Network, settings: Deployment) -> Roster:
    """Wait until enough nodes have said what data they have."""
    run = new_run()
    answers: dict[int, Joined] = {}
    told: dict[int, str] = {}
    end = monotonic() + settings.join_timeout
    log.info("Waiting for %d nodes.", settings.clients)
    while True:
        new = [node for node in network.nodes() if node not in answers]
        request = Request(PROTOCOL, JOIN, "", run, 0, 0, settings.clients, 0, 0, 0, 0, False)
        contents = {node: RecordDict({HEADER: header(request)}) for node in new}
        left = max(POLL_SECONDS, min(JOIN_SECONDS, end - monotonic()))
        refused: dict[int, str] = {}
        for node, content in (network.ask(contents, 0, left) if contents else {}).items():
            try:
                answers[node] = joined_of(content, run, settings.clients)
            except Refused as reason:
                refused[node] = str(reason)
        roster, others = roster_of(answers, settings.clients, run)
        for node, why in (refused | others).items():
            if told.get(node) != why:
                log.warning("Node %s cannot take part: %s.", node, why)
                told[node] = why
        if roster is not None:
            log.info("%d nodes have joined.", settings.clients)
            return roster
        if monotonic() > end:
            joined = len(answers) - len(others)
            raise InputError(
                f"{joined} of {settings.clients} nodes have joined within {settings.join_timeout:g} s; start the "
                "others, or set deploy.clients or deploy.join_timeout."
            )
        answers = {node: joined for node, joined in answers.items() if node not in others}
        sleep(POLL_SECONDS)


def joined_of(content: RecordDict | str, run: str, clients: int) -> Joined:
    if isinstance(content, str):
        raise Refused(content)
    refuse_refusal(content)
    joined = read_header(content, Joined)
    if joined.run != run:
        raise Refused("its answer is to another run")
    check_joined(joined, clients)
    return joined
