"""Algorithms with one mistake each, and the law that finds it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from driftless import Algorithm, Delta, Model
from driftless.algorithms import FedAvg


class WithH(NamedTuple):
    h: Tensor


class WithM(NamedTuple):
    x: Tensor
    m: Any


class NotADataclass(Algorithm):
    def update(self, server, mean, r):
        return Model(server.x + mean.delta)


@dataclass
class NotFrozen(Algorithm):
    def update(self, server, mean, r):
        return Model(server.x + mean.delta)


@dataclass(frozen=True)
class Misspelt(FedAvg):
    def boadcast(self, server):
        return Model(server.x)


@dataclass(frozen=True)
class NoSuchField(FedAvg):
    uniform = frozenset({"h"})


@dataclass(frozen=True)
class FieldAsText(FedAvg):
    uniform = "delta"  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True)
class NoSuchWeighting(FedAvg):
    weighting = "by size"


@dataclass(frozen=True)
class NoneInState(FedAvg):
    def init_client(self, x):
        return WithH(None)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class DictAsState(FedAvg):
    def init_client(self, x):
        return {"h": torch.zeros_like(x)}


@dataclass(frozen=True)
class NumberInState(FedAvg):
    def init_local(self, msg, client, r):
        return (0,)


@dataclass(frozen=True)
class AlwaysFloat32(FedAvg):
    def init_client(self, x):
        return WithH(torch.zeros(len(x)))


@dataclass(frozen=True)
class DividesByZero(FedAvg):
    def init_local(self, msg, client, r):
        return WithH(torch.zeros_like(msg.x) / 0)


@dataclass(frozen=True)
class NotAPair(FedAvg):
    def direction(self, step, local, msg, client, r):  # pyright: ignore[reportIncompatibleMethodOverride]
        return step.g


@dataclass(frozen=True)
class GrowingState(Algorithm):
    def init_server(self, x, facts):
        return WithM(x, ())

    def update(self, server, mean, r):
        return WithM(server.x + mean.delta, (*server.m, mean.delta))


@dataclass(frozen=True)
class ScalarDirection(FedAvg):
    def direction(self, step, local, msg, client, r):
        return step.g.norm(), local


@dataclass(frozen=True)
class WrongSign(FedAvg):
    def upload(self, y, local, msg, client, r):
        return Delta(msg.x - y), client


@dataclass(frozen=True)
class UploadsModel(FedAvg):
    def upload(self, y, local, msg, client, r):
        return Delta(y + 0), client


@dataclass(frozen=True)
class WithoutDelta(FedAvg):
    def upload(self, y, local, msg, client, r):
        return WithH(y - msg.x), client


@dataclass(frozen=True)
class WritesIntoClient(FedAvg):
    def init_client(self, x):
        return WithH(torch.zeros_like(x))

    def upload(self, y, local, msg, client, r):
        client.h.add_(y - msg.x)
        return Delta(y - msg.x), client


@dataclass(frozen=True)
class WritesIntoServer(FedAvg):
    def update(self, server, mean, r):
        server.x.add_(mean.delta)
        return server


@dataclass(frozen=True)
class CountsInSelf(FedAvg):
    calls: list[int] = field(default_factory=list)

    def direction(self, step, local, msg, client, r):
        self.calls.append(1)
        return step.g, local


SEEN: list[int] = []
FIRST: dict[int, Tensor] = {}
PREVIOUS: dict[int, Tensor] = {}


@dataclass(frozen=True)
class CountsInAGlobal(FedAvg):
    def direction(self, step, local, msg, client, r):
        SEEN.append(1)
        return step.g * (1 + 0.01 * len(SEEN)), local


@dataclass(frozen=True)
class GlobalNoise(FedAvg):
    def update(self, server, mean, r):
        return Model(server.x + mean.delta + 0.1 * torch.randn_like(server.x))


@dataclass(frozen=True)
class FollowsFirstClient(FedAvg):
    """Pulls towards the model of the client that was trained first in the round."""

    def init_server(self, x, facts):
        FIRST.clear()
        return Model(x)

    def direction(self, step, local, msg, client, r):
        return step.g + 0.1 * FIRST.setdefault(int(r.t), r.examples), local


@dataclass(frozen=True)
class BranchesOnATensor(FedAvg):
    def direction(self, step, local, msg, client, r):
        if step.g.norm() > 1:
            return step.g / 2, local
        return step.g, local


@dataclass(frozen=True)
class ReadsANumber(FedAvg):
    def upload(self, y, local, msg, client, r):
        return Delta((y - msg.x) * (r.steps.item() / r.steps.item())), client


@dataclass(frozen=True)
class VectorAsDiagnostic(FedAvg):
    def diagnostics(self, server, mean):
        return {"delta": mean.delta}


@dataclass(frozen=True)
class ForgetsBeta(FedAvg):
    beta: float = 0.9

    def with_server_lr(self, server_lr):
        return replace(self, server_lr=server_lr, beta=0.5)


@dataclass(frozen=True)
class StandsStill(FedAvg):
    def update(self, server, mean, r):
        return server


@dataclass(frozen=True)
class Climbs(FedAvg):
    def direction(self, step, local, msg, client, r):
        return -60 * step.g, local


@dataclass(frozen=True)
class CountsForTheServer(FedAvg):
    """The server reads how many steps the clients have counted in a list: right only in one process, one by one."""

    def direction(self, step, local, msg, client, r):
        SEEN.append(1)
        return step.g, local

    def update(self, server, mean, r):
        number = len(SEEN)
        SEEN.clear()
        return Model(server.x + mean.delta * (1 + 0.1 * number))


@dataclass(frozen=True)
class RemembersOutsideItsState(FedAvg):
    """The model before last is in a dict by round, which no checkpoint has."""

    def init_server(self, x, facts):
        PREVIOUS.clear()
        return Model(x)

    def update(self, server, mean, r):
        t = int(r.t)
        PREVIOUS[t] = server.x
        return Model(server.x + mean.delta + 0.3 * (server.x - PREVIOUS.get(t - 1, server.x)))


FOUND_BY: list[tuple[Algorithm, str, str]] = [
    (NotADataclass(), "frozen_dataclass", "NotADataclass is not declared as a dataclass"),
    (NotFrozen(), "frozen_dataclass", "not frozen"),
    (Misspelt(), "known_names", "'boadcast' (did you mean 'broadcast'?)"),
    (NoSuchField(), "class_attributes", "`uniform` names 'h'"),
    (FieldAsText(), "class_attributes", "write frozenset("),
    (NoSuchWeighting(), "class_attributes", "`weighting` is 'by size'"),
    (NoneInState(), "states_of_tensors", "`init_client` returned None as `client.h`"),
    (DictAsState(), "states_of_tensors", "`init_client` returned a dict as `client`"),
    (NumberInState(), "states_of_tensors", "`init_local` returned 0 as `local.0`"),
    (AlwaysFloat32(), "states_of_tensors", "`init_client` returned float32 as `client.h`"),
    (DividesByZero(), "states_of_tensors", "`init_local` returned NaN in `local.h`"),
    (NotAPair(), "states_of_tensors", "`direction` returned float64[8]: return the pair"),
    (GrowingState(), "kept_structure", "`update` returned the server WithM"),
    (ScalarDirection(), "kept_structure", "`direction` returned float64[] as d"),
    (WrongSign(), "x_and_delta", "`upload` returned `delta` = x - y, the wrong sign"),
    (UploadsModel(), "x_and_delta", "`upload` returned a `delta` that is not y - x"),
    (WithoutDelta(), "x_and_delta", "`upload` returned the upload WithH(h: float64[8]) without a field `delta`"),
    (WritesIntoClient(), "unchanged_arguments", "`upload` wrote into its argument `client.h`: use `client.h + ...`"),
    (WritesIntoServer(), "unchanged_arguments", "`update` wrote into its argument `server.x`"),
    (CountsInSelf(), "unchanged_algorithm", "`direction` changed the algorithm"),
    (CountsInAGlobal(), "repeatable_calls", "`direction` returned something else"),
    (GlobalNoise(), "repeatable_calls", "`update` returned something else"),
    (FollowsFirstClient(), "separate_clients", "`direction` returned something else"),
    (
        BranchesOnATensor(),
        "vectorised_calls",
        "`torch.where(condition, a, b)` instead (in the line `if step.g",
    ),
    (ReadsANumber(), "vectorised_calls", "`upload` cannot work on a block of clients: it reads a number"),
    (VectorAsDiagnostic(), "diagnostics_of_numbers", "`diagnostics` returned float64[8] as 'delta'"),
    (ForgetsBeta(), "server_lr", "`with_server_lr` changed more than"),
    (StandsStill(), "moving_model", "`update` must return a new `x`"),
    (Climbs(), "moving_model", "look for a wrong sign in `direction`"),
    (CountsForTheServer(), "engines_agree", "a block of clients comes to another result"),
    (CountsForTheServer(), "replayed_steps", "replayed steps differ from the steps as written"),
    (GlobalNoise(), "repeatable_runs", "the same run gives another result when it is repeated"),
    (RemembersOutsideItsState(), "resumed_runs", "a run that continues after round"),
    (CountsForTheServer(), "workers_agree", "two processes come to another result than one"),
]
"""An algorithm, the law, and the beginning of what it says."""
