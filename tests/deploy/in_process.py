"""A federation in one process: the real server and the real nodes; only what carries their messages is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from flwr.app import RecordDict
from torch import nn

from driftless.deploy.flower import answered, run_of
from driftless.deploy.protocol import HEADER, PROTOCOL, Refusal, Request, header, read_header
from driftless.deploy.refusal import Refused
from driftless.deploy.server import coordinate
from driftless.deploy.task import Task
from driftless.errors import InputError
from driftless.runs.directory import StoredRun
from laws.entries import classification

CLIENTS, ROUNDS, FIRST_NODE = 4, 4, 100


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return nn.Linear(4, 3)


TASK = Task(net)
Change = Callable[[Request, RecordDict], RecordDict | str]
"""What becomes of an answer on its way."""


class Asked(NamedTuple):
    request: Request
    content: RecordDict
    answer: RecordDict


def settings(folder: Path, algorithm: str = "scaffold", **more: Any) -> dict[str, Any]:
    return {
        "algorithm.name": algorithm, "run.rounds": ROUNDS, "run.cohort": CLIENTS, "run.seed": 5, "local.lr": 0.1,
        "local.epochs": 1, "local.batch_size": 3, "deploy.clients": CLIENTS, "run.output": str(folder / "run"),
        **{name.replace("__", "."): value for name, value in more.items()},
    }  # fmt: skip


class Nodes:
    """Node 100 + i has the data of client i and keeps its states in a folder of its own."""

    def __init__(self, folder: Path, config: Mapping[str, Any], task: Task = TASK) -> None:
        self.folder, self.config, self.task = folder, dict(config), task
        self.change: Change = lambda _, answer: answer
        self.asked: list[Asked] = []

    def nodes(self) -> list[int]:
        return [FIRST_NODE + client for client in range(CLIENTS)]

    def ask(self, requests: Mapping[int, RecordDict], round: int, seconds: float) -> dict[int, RecordDict | str]:
        found: dict[int, Asked] = {}
        for node, content in requests.items():
            request = read_header(content, Request, set(content) - {HEADER})
            found[node] = Asked(request, content, self.answer(node - FIRST_NODE, content))
        self.asked += found.values()
        return {node: self.change(each.request, each.answer) for node, each in found.items()}

    def answer(self, client: int, content: RecordDict) -> RecordDict:
        """As the ClientApp answers."""
        try:
            return self.answered(client, content)
        except (Refused, InputError) as reason:
            return RecordDict({HEADER: header(Refusal(PROTOCOL, run_of(content), str(reason)[:3000]))})

    def answered(self, client: int, content: RecordDict, **config: Any) -> RecordDict:
        context: Any = SimpleNamespace(
            node_config={"partition-id": client}, node_id=FIRST_NODE + client, run_config=self.config | config
        )
        return answered(content, context, self.task, lambda _: classification().client(client), self.states(client))

    def states(self, client: int) -> Path:
        return self.folder / f"node-{client}"

    def play(self) -> StoredRun:
        return coordinate(self, self.config, self.task, classification().client(6))

    def trained(self, client: int, round: int) -> Asked:
        """The last request to train of a client and a round."""
        return [
            each
            for each in self.asked
            if each.request.task == "train" and (each.request.client, each.request.round) == (client, round)
        ][-1]


def played(folder: Path, algorithm: str = "scaffold", change: Change | None = None, **more: Any) -> tuple[Nodes, Any]:
    """A federation that has played its run."""
    nodes = Nodes(folder, settings(folder, algorithm, **more))
    if change is not None:
        nodes.change = change
    return nodes, nodes.play()
