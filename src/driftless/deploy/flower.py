"""driftless on Flower: a ServerApp and a ClientApp for any algorithm.

    app = driftless.deploy.flower.server_app(Net, test=(inputs, targets))        # server.py
    app = driftless.deploy.flower.client_app(Net, data)                          # client.py

Settings are those of `driftless run`, in `[tool.flwr.app.config]` of pyproject.toml, and `deploy.clients`, the number
of nodes. See docs/deploy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
from flwr.app import Context, Message, RecordDict
from flwr.app.exception import AppExitException
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.exit import ExitCode
from torch import Tensor, nn

from driftless.algorithm import Algorithm
from driftless.deploy.node import Node, Place, check_work, federation_of, is_join, joined
from driftless.deploy.protocol import HEADER, PROTOCOL, TOKEN, Refusal, Request, check_request, header, read_header
from driftless.deploy.records import short
from driftless.deploy.refusal import Refused
from driftless.deploy.server import coordinate, log
from driftless.deploy.settings import split
from driftless.deploy.task import Task, workload_of
from driftless.engine.losses import Loss
from driftless.engine.metrics import Given
from driftless.errors import InputError

Model = nn.Module | str | Callable[..., nn.Module] | None
Data = Callable[[Context], Any]
"""The examples of a node: (inputs, targets), or a data set as `Federation.from_clients` takes it."""

FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.2, 3.0, 1.3
"""Seconds between two looks for answers, and how they grow: each look is a request to the SuperLink for each node."""
SPARE_SECONDS = 60.0
"""That a request is valid after its deadline: Flower answers in the place of a node when it is not."""
STATE_FOLDER = "driftless-state"
MESSAGE_TYPE = "train"


class Failed(AppExitException):
    """A mistake in the settings or the data, in one sentence."""

    exit_code = ExitCode.SERVERAPP_EXCEPTION  # Flower counts codes below 100 as success


def server_app(
    model: Model = None,
    *,
    test: Any = None,
    algorithm: Algorithm | None = None,
    loss: Loss | None = None,
    model_output: Callable[..., Tensor] | None = None,
    cohort: Any = None,
    metrics: Given = None,
) -> ServerApp:
    """The server of a federation of real machines. Needs `pip install driftless[deploy]`.

    Settings are those of `driftless run`, in `[tool.flwr.app.config]` of pyproject.toml, and `deploy.clients`, the
    number of nodes. What is given here takes the place of a setting; objects that matter to both sides (`algorithm`,
    `loss`, `model_output`) must be given to `client_app`, too.

    Args:
        model: A module, or a class or function that makes one; its parameters are x^0. A name of ours, or None: the
            setting `model.name`.
        test: Inputs and targets of the server's test set, or a function that returns them; None: there is none.
        algorithm: An instance; None: the settings of the section `algorithm`.
        loss: A function (outputs, targets) -> mean over the batch; None: the setting `local.loss`.
        model_output: Takes the tensor of outputs out of what the model returns; None: the model returns it.
        cohort: As of `simulate`; None: the setting `run.cohort`.
        metrics: Names or functions that are measured besides loss and accuracy; None: the setting `evaluate.metrics`.

    Returns:
        An app for Flower's `serverapp`.

    Examples:
        >>> import torch
        >>> from driftless.deploy.flower import server_app
        >>> app = server_app(lambda: torch.nn.Linear(20, 3))  # server.py
    """
    app, task = ServerApp(), Task(model, algorithm, loss, model_output, cohort, metrics)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            coordinate(FlowerNetwork(grid), context.run_config, task, test() if callable(test) else test)
        except InputError as error:
            log.error("%s", error)
            raise Failed(str(error)) from None

    return app


def client_app(
    model: Model,
    data: Data,
    *,
    algorithm: Algorithm | None = None,
    loss: Loss | None = None,
    model_output: Callable[..., Tensor] | None = None,
    state_folder: str | Path = STATE_FOLDER,
    mods: list[Mod] | None = None,
) -> ClientApp:
    """The client of a node of a federation of real machines. Needs `pip install driftless[deploy]`.

    `partition-id` in the configuration of the node asks for this number as client.

    Args:
        model: As of `server_app`.
        data: A function of Flower's context that returns the node's examples, (inputs, targets) or a data set as
            `Federation.from_clients` takes it; `context.node_config` has what the node was started with.
        algorithm: As of `server_app`.
        loss: As of `server_app`.
        model_output: As of `server_app`.
        state_folder: Where the node keeps the algorithm's state of the client, relative to the folder in which the node
            was started. A node that was started with `state-folder="..."` in its configuration keeps it there.
        mods: Flower's mods, around the handling of each message.

    Returns:
        An app for Flower's `clientapp`.

    Examples:
        >>> import torch
        >>> from driftless.deploy.flower import client_app
        >>> def data(context):
        ...     return torch.randn(50, 20), torch.randint(0, 3, (50,))
        >>> app = client_app(lambda: torch.nn.Linear(20, 3), data)  # client.py
    """
    app, task = ClientApp(mods=mods), Task(model, algorithm, loss, model_output)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        content = message.content
        try:
            answer = answered(content, context, task, data, state_folder)
        except (Refused, InputError) as reason:
            log.error("The request is refused: %s", reason)
            answer = RecordDict({HEADER: header(Refusal(PROTOCOL, run_of(content), str(reason)[:3000]))})
        return Message(answer, reply_to=message)

    return app


def answered(content: RecordDict, context: Context, task: Task, data: Data, state_folder: str | Path) -> RecordDict:
    config = context.node_config
    folder = Path(str(config.get("state-folder", state_folder)))
    place = Place(context.node_id, folder, number_of(config.get("partition-id", -1)))
    if is_join(content):
        return joined(content, data(context), place)
    request = read_header(content, Request, set(content) - {HEADER})
    check_request(request)
    federation = federation_of(data(context), request)
    with task.resolved(split(context.run_config)[1], federation) as resolved:
        work = workload_of(resolved, federation)
        check_work(work, request.client)
        return Node(work, place).answer(content)


def number_of(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < -1:
        raise InputError(f"partition-id of the node is {given!r}; it must be a whole number of at least 0.")
    return given


def run_of(content: RecordDict) -> str:
    """For the refusal of a request that may not even have a run."""
    record: Any = content.get(HEADER)
    run = record.get("run") if hasattr(record, "get") else None
    return run if isinstance(run, str) and TOKEN.fullmatch(run) else "0" * 32


class FlowerNetwork:
    """The nodes of a Flower federation."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> list[int]:
        return sorted(self._grid.get_node_ids())

    def ask(self, requests: Mapping[int, RecordDict], round: int, seconds: float) -> Mapping[int, RecordDict | str]:
        """Answers are fetched one by one: one that cannot be read must not take others with it.

        Who has answered is known from the request that was answered, not from what the answer says.
        """
        online = set(self._grid.get_node_ids())
        found: dict[int, RecordDict | str] = {node: "not connected" for node in requests if node not in online}
        asked = [node for node in requests if node in online]
        ttl = seconds + SPARE_SECONDS
        messages = [Message(requests[node], node, MESSAGE_TYPE, ttl=ttl, group_id=str(round)) for node in asked]
        pushed = list(self._grid.push_messages(messages)) if messages else []
        waiting = {node: number for node, number in zip(asked, pushed, strict=False) if number}
        found |= {node: "the request could not be sent" for node in asked if node not in waiting}
        end, pause = monotonic() + seconds, FIRST_PAUSE
        while waiting and monotonic() < end:
            for node, number in list(waiting.items()):
                if (answer := self._pull(node, number)) is not None:
                    found[node] = answer
                    del waiting[node]
            if waiting:
                sleep(max(0.0, min(pause, end - monotonic())))
                pause = min(pause * GROWTH, LONGEST_PAUSE)
        return found

    def _pull(self, node: int, number: str) -> RecordDict | str | None:
        try:
            messages = list(self._grid.pull_messages([number]))
        except (httpx.HTTPError, OSError):
            return None  # the connection to the SuperLink; Flower has tried again several times
        except Exception as error:
            return f"the answer cannot be read ({type(error).__name__}: {short(error)})"
        if not messages:
            return None
        message = messages[0]
        if message.has_error():
            return f"the node failed: {short(message.error.reason, 300)}"
        if message.metadata.src_node_id != node:
            return f"the answer claims to be of node {message.metadata.src_node_id}"
        return message.content
