"""What `driftless.simulate` returns."""

from __future__ import annotations

import html
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from torch import nn

from driftless import models
from driftless.algorithm import Algorithm, Vector
from driftless.algorithms import ALGORITHMS
from driftless.engine.flat import FlatModel
from driftless.engine.history import Event, History, first_events
from driftless.engine.state import State
from driftless.final_values import final_text, heading


@dataclass(repr=False)
class Result:
    """What a run leaves behind; `print(result)` shows its last and best values."""

    history: History
    """A row a round: losses, accuracies, norms, bytes."""
    x: Vector
    """The final cloud vector."""
    inference: Vector
    """The model that was evaluated; equals `x` for most algorithms."""
    state: State
    """Give it to `simulate(state=...)` to continue the run."""
    events: list[Event]
    """Clients left out and rounds lost."""
    engine: dict[str, object]
    """What the engine was, in particular what "auto" chose."""
    client_metrics: dict[str, list[float]]
    """Of the last evaluation: by metric, the value of each test client, NaN for one without test data."""
    _model: FlatModel

    def module(self) -> nn.Module:
        """A new module with the trained parameters: those that were evaluated."""
        return self._model.fill(self.inference)

    def save(self, file: str | PathLike[str]) -> None:
        """Write the module's parameters and buffers, by their own names, into a safetensors file.

        `load_state_dict(safetensors.torch.load_file(file))` and `model.weights=` read it.
        """
        Path(file).write_bytes(models.weights_content(self.module()))

    def __str__(self) -> str:
        return final_text(name_of(self.state.algorithm), list(self.history), first_events(self.events))

    def __repr__(self) -> str:
        return f"Result({heading(name_of(self.state.algorithm), list(self.history))})"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


def name_of(algorithm: Algorithm) -> str:
    """The name under which `driftless list algorithms` has it, or of a class of the user's own."""
    kind = type(algorithm)
    return next((name for name, cls in ALGORITHMS.items() if cls is kind), kind.__name__)
