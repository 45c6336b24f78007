"""What `driftless.simulate` returns."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import torch
from torch import nn

from driftless import models
from driftless.algorithm import Algorithm, Vector
from driftless.algorithms import ALGORITHMS
from driftless.engine.flat import FlatModel
from driftless.engine.history import Event, History, events_from, first_events
from driftless.engine.ranks import Ranks
from driftless.engine.simulation import Simulation
from driftless.engine.state import State
from driftless.engine.tree import leaves, with_leaves
from driftless.final_values import final_text, heading


@dataclass(repr=False)
class Result:
    """What `simulate` returns; `print(result)` shows its last and best values, and so does a notebook.

    Attributes:
        history: A row a round: losses, accuracies, norms, bytes.
        x: The final cloud vector.
        inference: The vector that was evaluated; equals `x` for most algorithms.
        state: Give it to `simulate(state=...)` to continue the run.
        events: Clients left out, rounds lost, and what else a user should see.
        engine: How the run was computed, in particular what "auto" chose.
        client_metrics: Of the last evaluation: by metric, the value of each test client, NaN for one without test data.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=5)
        >>> result.x.shape
        torch.Size([650])
        >>> result.engine["kind"]
        'block'
        >>> print(result)
        fedavg: 1 round in ...
                        final    best
        train loss ...
    """

    history: History
    x: Vector
    inference: Vector
    state: State
    events: list[Event]
    engine: dict[str, object]
    client_metrics: dict[str, list[float]]
    _model: FlatModel

    def module(self) -> nn.Module:
        """A new module with the trained parameters: those that were evaluated.

        Examples:
            >>> import driftless
            >>> federation = driftless.load("digits", clients=10, seed=0)
            >>> module = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=5).module()
            >>> module(federation.test[0]).shape
            torch.Size([360, 10])
        """
        return self._model.fill(self.inference)

    def save(self, file: str | PathLike[str]) -> None:
        """Write the module's parameters and buffers, by their own names, into a safetensors file.

        `load_state_dict(safetensors.torch.load_file(file))` and the setting `model.weights` read it.

        Args:
            file: The path of the file.
        """
        Path(file).write_bytes(models.weights_content(self.module()))

    def __str__(self) -> str:
        return final_text(name_of(self.state.algorithm), list(self.history), first_events(self.events))

    def __repr__(self) -> str:
        return f"Result({heading(name_of(self.state.algorithm), list(self.history))})"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


def send_result(ranks: Ranks, result: Result) -> None:
    """To the other ranks, so that a script goes on equally on all. The states of clients stay on rank 0."""
    if ranks.size == 1:
        return
    state = result.state
    facts = {"round": state.round, "lost": state.lost, "accuracies": dict(state.accuracies)}
    facts |= {"history": list(result.history), "events": result.events, "client_metrics": result.client_metrics}
    ranks.broadcast_text(json.dumps(facts))
    with ranks.together():
        ranks.group.broadcast([*leaves(state.server), state.aggregate, result.inference])


def received_result(ranks: Ranks, simulation: Simulation) -> Result:
    """What rank 0 has sent. `state` has no rows of clients: only rank 0's is needed to continue."""
    told = json.loads(ranks.broadcast_text())
    fresh = simulation.init()
    vectors = [torch.empty_like(leaf) for leaf in (*leaves(fresh.server), fresh.aggregate, fresh.server.x)]
    with ranks.together():
        ranks.group.broadcast(vectors)
    *server, aggregate, inference = vectors
    state = replace(
        fresh, round=told["round"], lost=told["lost"], accuracies=told["accuracies"],
        server=with_leaves(fresh.server, server), aggregate=aggregate,
    )  # fmt: skip
    return Result(
        History(told["history"]), state.server.x, inference, state, events_from(told["events"]),
        simulation.resolved_engine, told["client_metrics"], simulation.model,
    )  # fmt: skip


def name_of(algorithm: Algorithm) -> str:
    """The name under which `driftless list algorithms` has it, or of a class of the user's own."""
    kind = type(algorithm)
    return next((name for name, cls in ALGORITHMS.items() if cls is kind), kind.__name__)
