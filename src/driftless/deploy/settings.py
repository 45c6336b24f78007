"""The settings of a federation: those of a run, and `deploy...` for what only machines have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from driftless.deploy.protocol import MOST_CLIENTS
from driftless.errors import InputError, check_choice, check_range, check_whole, unknown

PREFIX, OWN = "deploy.", "app."
"""Of our settings, and of those that only the user's own code reads."""


@dataclass(frozen=True)
class Deployment:
    """How the server deals with nodes."""

    clients: int = 0
    """N: the run begins when so many nodes have joined, and these are its clients."""
    deadline: float = 600.0
    """Seconds that the clients of a round have for their answers; who is later is left out of the round."""
    join_timeout: float = 600.0
    """Seconds to wait for the nodes before the first round."""
    largest_value: float = 1e6
    """An upload with a larger number in it is left out."""
    reset_lost_state: bool = False
    """Whether a client whose state was lost begins anew, as if for the first time; else it is left out."""

    def __post_init__(self) -> None:
        if self.clients == 0:
            raise InputError(
                "deploy.clients is not set; set it to the number of nodes that the federation has, such as "
                "deploy.clients = 4."
            )
        check_whole("deploy.clients", self.clients, 1, most=MOST_CLIENTS)
        for name in ("deadline", "join_timeout", "largest_value"):
            check_range(f"{PREFIX}{name}", getattr(self, name), 0, math.inf, low_open=True, high_open=True)
        check_choice("deploy.reset_lost_state", self.reset_lost_state, (True, False))


def split(run_config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """From `[tool.flwr.app.config]`: the fields of Deployment, and the settings of the run by their full keys."""
    known = [field.name for field in fields(Deployment)]
    ours = {key.removeprefix(PREFIX): value for key, value in run_config.items() if key.startswith(PREFIX)}
    for key in ours:
        if key not in known:
            raise unknown("setting", f"{PREFIX}{key}", [f"{PREFIX}{name}" for name in known])
    run = {key: value for key, value in run_config.items() if not key.startswith((PREFIX, OWN))}
    return ours, run
