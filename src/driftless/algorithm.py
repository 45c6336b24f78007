"""The interface of a federated algorithm. Read this first.

An algorithm is a frozen dataclass of hyper-parameters with a few pure methods on flat vectors. Client methods are
written for ONE client; the engine lifts them over a block of clients with `torch.func.vmap`. `self` never changes:
everything that changes is in the server state, the client state or the local state, which are NamedTuples of tensors.
The server receives only means of uploads, which makes blocks, workers, streaming and secure aggregation possible for
every algorithm.

One round, as the engine runs it:

    msg = broadcast(server)
    for each client i of the cohort:
        y, local = msg.x, init_local(msg, client_i, r)
        repeat K_i times:  d, local = direction(Step(g, y), local, msg, client_i, r);  y <- y - lr * d
        upload_i, client_i = upload(y, local, msg, client_i, r)
    server = update(server, mean of upload_i, r)

Rules for an implementation: no Python branch on tensor values and no `None` in a state ("never seen" is a number, such
as `t_last = 0`), because client methods run under vmap; no in-place operation, because inputs belong to the caller.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

from torch import Tensor

from driftless.errors import InputError

Vector = Tensor
"""The model or anything of its shape: [P]."""
Scalar = Tensor
"""A 0-d tensor."""
OnRequest = Any
"""A Vector for an algorithm that asks for it, None for the others."""


class Facts(NamedTuple):
    """What is given before the first round."""

    layers: tuple[slice, ...]
    """The flat vector's parts, one per parameter tensor of the module."""
    clients: int
    """N."""


class Plan(NamedTuple):
    """A run as it is planned, for an algorithm that depends on it: see `Algorithm.for_run`."""

    rounds: int
    clients: int
    """N."""
    cohort: int | float
    """M, the clients of a round: the expected number if it is random, the largest if it differs between rounds."""
    sampling: str
    """How a cohort is drawn, each round anew: "fixed" (M clients, uniformly without replacement) or "poisson" (each
    client by itself, with probability M/N); "" for any other way."""
    weighting: str
    """The one of this run."""
    steps: tuple[int, ...] | int | None
    """K, if it is the same for all clients; of each round if it changes, of which the last one stays."""
    inference: str | None
    """Which model is evaluated; None: the algorithm's own choice."""
    aggregation: str
    """How uploads become one: "mean", or a rule of `server.aggregation`."""
    seed: int
    layers: tuple[slice, ...]


class Step(NamedTuple):
    """One local step of one client."""

    g: Vector
    """Minibatch gradient at y, weight decay included."""
    y: Vector
    """The local iterate."""
    g_x: OnRequest = None
    """The same minibatch's gradient at x, if the algorithm sets `anchor_gradient`."""


class Round(NamedTuple):
    """Facts of the round: of a client in its own methods, means over the cohort in `update`."""

    t: Scalar
    """The round, from 1."""
    lr: Scalar
    """Local learning rate of this round, after decay."""
    steps: Scalar
    """Client: K, its local steps. Server: K_bar, their mean over the cohort."""
    examples: Scalar
    """Client: n_i, its examples. Server: their mean over the cohort."""
    cohort: int
    """M, the clients of this round."""
    clients: int
    """N, all training clients."""
    layers: tuple[slice, ...]
    gradient: OnRequest = None
    """Client: its full-batch gradient at x, if `full_gradient` is "after" or "before"."""
    cohort_gradient: OnRequest = None
    """The cohort's mean full-batch gradient at x, known before the local steps, if `full_gradient` is "before"."""


class Model(NamedTuple):
    """The server state, or the message, of an algorithm that needs no more than the model."""

    x: Vector


class Delta(NamedTuple):
    """The upload of an algorithm that needs no more than the client's progress, y - x."""

    delta: Vector


# States, messages and uploads differ in type from algorithm to algorithm. A method that annotates them with its own
# NamedTuples, as in `def update(self, server: Server, mean: Upload, r)`, has their fields checked by a type checker.
Server = Any
Client = Any
Message = Any
Local = Any
Upload = Any


class Algorithm(ABC):
    """Subclass as a frozen dataclass; override what differs from FedAvg. Only `update` has no default."""

    name: ClassVar[str] = ""
    """Its name on the command line and in ALGORITHMS; empty for a class that is given as FILE.py:NAME."""
    citation: ClassVar[str] = ""
    weighting: ClassVar[str] = "examples"
    """The paper's average over clients: by "examples" or "uniform". A run can override it."""
    uniform: ClassVar[frozenset[str]] = frozenset()
    """Upload fields that are averaged uniformly whatever the weighting."""
    anchor_gradient: ClassVar[bool] = False
    """Ask for `step.g_x`."""
    full_gradient: ClassVar[str] = ""
    """Ask for full-batch gradients at x: "after" fills `r.gradient` for `upload`; "before" also fills
    `r.cohort_gradient`, at the price of one more exchange before the local steps."""
    public: ClassVar[frozenset[str]] = frozenset()
    """Upload fields that depend on the facts of the round, `r`, and not on the client's training. Where uploads are
    protected (driftless.privacy) the server fills them in by itself."""
    needs_clients: ClassVar[bool] = True
    """Whether a round without any client changes nothing. False: `update` gets zeros as means, and r.cohort = 0."""
    local_must_be: ClassVar[Mapping[str, object]] = {}
    """Values of the local training that the algorithm is defined for; a run that contradicts them is an error."""

    def for_run(self, plan: Plan) -> Self:
        """The algorithm with what it takes from the plan of a run; raises InputError if it does not fit."""
        return self

    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before the run."""
        return ()

    def init_server(self, x: Vector, facts: Facts) -> Server:
        return Model(x)

    def init_client(self, x: Vector) -> Client:
        """State of a client that takes part for the first time; `()` when the algorithm keeps none."""
        return ()

    def broadcast(self, server: Server) -> Message:
        """What is sent to each client of the cohort. Has a field `x`, where the local steps start."""
        return Model(server.x)

    def init_local(self, msg: Message, client: Client, r: Round) -> Local:
        """State that evolves over the local steps and is then forgotten; `()` for most algorithms."""
        return ()

    def direction(self, step: Step, local: Local, msg: Message, client: Client, r: Round) -> tuple[Vector, Local]:
        """d of the local step y <- y - lr * d."""
        return step.g, local

    def upload(self, y: Vector, local: Local, msg: Message, client: Client, r: Round) -> tuple[Upload, Client]:
        """What is sent back, with a field `delta` = y - x, and the client's state until it takes part again."""
        return Delta(y - msg.x), client

    @abstractmethod
    def update(self, server: Server, mean: Upload, r: Round) -> Server:
        """The server's step, from the mean of the uploads."""

    def inference(self, server: Server) -> Vector:
        """The model that is evaluated."""
        return server.x

    def diagnostics(self, server: Server, mean: Upload) -> Mapping[str, Scalar]:
        """Numbers worth recording each round, besides those that the engine records of every algorithm."""
        return {}

    def with_server_lr(self, server_lr: Any) -> Self:
        """The same algorithm with another server learning rate: how scaling and warm-up reach it."""
        return dataclasses.replace(self, server_lr=server_lr)  # pyright: ignore[reportArgumentType]


def base_server_lr(algorithm: Algorithm) -> float:
    """The algorithm's `server_lr`, or an error that says it has none."""
    server_lr = getattr(algorithm, "server_lr", None)
    if server_lr is None:
        raise InputError(
            f"{type(algorithm).__name__} has no server_lr, so it cannot be scaled or warmed up; "
            "set server.lr_scaling = none and server.warmup_rounds = 0, or choose an algorithm with a server_lr."
        )
    return float(server_lr)
