"""What an algorithm costs, derived by running its own methods on a model of a few parameters, not declared."""

from __future__ import annotations

from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Facts, Round
from driftless.engine.tree import Tree, leaves

PARAMETERS = 13
"""A size that no other tensor of a state has, so that counting it counts vectors."""


class Vectors(NamedTuple):
    """Vectors of the model's size, per client and round."""

    down: int
    up: int
    client: int
    """Kept by a client between its rounds."""
    server: int
    """Kept by the server, the model included."""


def vectors(algorithm: Algorithm) -> Vectors:
    x = torch.linspace(0.1, 1.0, PARAMETERS)
    one = torch.ones(())
    server = algorithm.init_server(x, Facts((slice(0, PARAMETERS),), 2))
    message, client = algorithm.broadcast(server), algorithm.init_client(x)
    r = Round(one, one, one, one, 1, 2, (slice(0, PARAMETERS),), x, x)
    upload, _ = algorithm.upload(x, algorithm.init_local(message, client, r), message, client, r)
    # A full gradient that is wanted before the local steps goes up, and the cohort's mean comes down.
    extra = int(algorithm.full_gradient == "before")
    return Vectors(count(message) + extra, count(upload) + extra, count(client), count(server))


def count(tree: Tree) -> int:
    return sum(leaf.numel() == PARAMETERS for leaf in leaves(tree))
