"""What attackers send: a fixed set of clients, whose uploads are changed or who train on wrong labels.

An attacker trains as an honest client does, and what it keeps for itself is what training gave it. Only what leaves it
is changed: every vector of its upload, and the full gradient that it sends before the local steps. Single numbers of an
upload, such as a count, stay as they are.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.data.cohorts import number_of_clients
from driftless.engine.faults import Faults
from driftless.engine.local import Trained
from driftless.engine.tree import Tree, map_leaves
from driftless.random import stream


class Attack(NamedTuple):
    attackers: np.ndarray
    """[clients], bool."""
    factor: float
    """What their uploads are multiplied by."""


def attack_on_uploads(faults: Faults, clients: int, seed: int) -> Attack | None:
    factors = {"nan": math.nan, "scale": faults.scale, "sign-flip": -faults.scale}
    if faults.attack not in factors or not faults.attackers:
        return None
    return Attack(attackers_among(faults, clients, seed), factors[faults.attack])


def attackers_among(faults: Faults, clients: int, seed: int) -> np.ndarray:
    """[clients], bool: who attacks, the same in all rounds. A larger fraction has the same clients and more."""
    found = np.zeros(clients, dtype=bool)
    if faults.attack != "none" and faults.attackers:
        found[_order(clients, seed)[: number_of_clients(float(faults.attackers), clients)]] = True
    return found


@lru_cache(maxsize=1)
def _order(clients: int, seed: int) -> np.ndarray:
    return stream(seed, "attackers").permutation(clients)


def attacked(attack: Attack | None, clients: np.ndarray, x: Vector, trained: Trained) -> Trained:
    """What reaches the server of a block of these clients; their own states stay what training gave."""
    if attack is None or not attack.attackers[clients].any():
        return trained
    upload = attacked_vectors(attack, clients, trained.upload)
    attacks = torch.from_numpy(attack.attackers[clients]).to(x.device)
    models = torch.where(attacks[:, None], x + upload.delta, trained.y)  # as the server sees them
    return trained._replace(upload=upload, y=models)


def attacked_vectors(attack: Attack | None, clients: np.ndarray, sent: Tree) -> Tree:
    """The vectors that these clients send, of attackers multiplied by the factor."""
    if attack is None or not attack.attackers[clients].any():
        return sent
    factors = torch.from_numpy(np.where(attack.attackers[clients], attack.factor, 1.0))

    def multiplied(rows: Tensor) -> Tensor:
        if rows.dim() < 2 or not rows.is_floating_point():
            return rows
        return rows * factors.to(rows).view(-1, *[1] * (rows.dim() - 1))

    return map_leaves(multiplied, sent)


def wrong_labels(labels: Tensor, classes: int) -> Tensor:
    """y -> classes - 1 - y, as usual in the literature on poisoned federations."""
    return classes - 1 - labels
