"""Algorithms of a user's own, as the tests of the engine need them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from driftless import Algorithm, Delta, Model
from driftless.algorithms import FedAvg, Scaffold


class LastModel(NamedTuple):
    y: Tensor


@dataclass(frozen=True)
class Keeper(FedAvg):
    """FedAvg whose clients keep the model they reached, so that a test can look at it."""

    def init_client(self, x):
        return LastModel(torch.zeros_like(x))

    def upload(self, y, local, msg, client, r):
        return Delta(y - msg.x), LastModel(y)


def reached(result, client: int) -> Tensor:
    """The model that a client of a Keeper's run reached when it last took part."""
    assert client in result.state.clients
    return result.state.clients.get([client], LastModel(torch.zeros_like(result.x))).y[0]


class Seen(NamedTuple):
    """Server state: what the server was told in the last round."""

    x: Tensor
    weighted: Tensor
    uniform: Tensor
    vector: Tensor
    steps: Tensor
    examples: Tensor
    cohort: Tensor
    clients: Tensor
    t: Tensor
    lr: Tensor


class Told(NamedTuple):
    delta: Tensor
    weighted: Tensor
    uniform: Tensor
    parts: tuple[Tensor, ...]


@dataclass(frozen=True)
class Probe(Algorithm):
    """Uploads n_i in a field of either kind; the server keeps what arrives."""

    uniform = frozenset({"uniform"})

    def init_server(self, x, facts):
        zero = x.new_zeros(())
        return Seen(x, zero, zero, torch.zeros_like(x), zero, zero, zero, zero, zero, zero)

    def broadcast(self, server):
        return Model(server.x)

    def upload(self, y, local, msg, client, r):
        return Told(y - msg.x, r.examples, r.examples, (r.steps * torch.ones_like(y),)), client

    def update(self, server, mean, r):
        number = server.x.new_tensor
        return Seen(
            server.x + mean.delta, mean.weighted, mean.uniform, mean.parts[0], r.steps, r.examples, number(r.cohort),
            number(r.clients), r.t, r.lr,
        )  # fmt: skip


@dataclass(frozen=True)
class Poisoned(Scaffold):
    """SCAFFOLD that computes `value` instead of a number in some rounds, in one place."""

    place: str = "direction"
    """"direction", "state" (of the client) or "server"."""
    rounds: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    """Only clients with so many examples; all when empty."""
    value: float = math.nan

    def poison(self, place, r):
        hit = (r.t == torch.tensor(self.rounds)).any() & (self.place == place)
        if self.sizes and place != "server":
            hit = hit & (r.examples == torch.tensor(self.sizes)).any()
        return torch.where(hit, self.value, 0.0)

    def direction(self, step, local, msg, client, r):
        d, local = super().direction(step, local, msg, client, r)
        return d + self.poison("direction", r), local

    def upload(self, y, local, msg, client, r):
        upload, client = super().upload(y, local, msg, client, r)
        return upload, client._replace(c=client.c + self.poison("state", r))

    def update(self, server, mean, r):
        new = super().update(server, mean, r)
        return new._replace(x=new.x + self.poison("server", r))
