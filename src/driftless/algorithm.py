"""The interface of a federated algorithm. Read this first.

What the methods of an algorithm get comes first: `Facts`, `Plan`, `Step`, `Round`, and the smallest states, `Model` and
`Delta`. Then `Algorithm`, whose docstring has one round in pseudo-code and the rules for an implementation.
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
    """What is given before the first round, to `Algorithm.init_server`.

    Attributes:
        layers: The flat vector's parts, one slice for each parameter tensor of the module.
        clients: N, the number of training clients.
    """

    layers: tuple[slice, ...]
    clients: int


class Plan(NamedTuple):
    """A run as it is planned, for an algorithm that depends on it: see `Algorithm.for_run`.

    Attributes:
        rounds: Rounds in all.
        clients: N, the number of training clients.
        cohort: M, the clients of a round: the expected number if it is random, the largest if it differs between
            rounds.
        sampling: How a cohort is drawn, each round anew: "fixed" (M clients, uniformly without replacement) or
            "poisson" (each client by itself, with probability M/N); "" for any other way.
        weighting: How uploads are weighted in this run: "examples" or "uniform".
        steps: K, if it is the same for all clients; of each round if it changes, of which the last one stays; None if
            it depends on the client.
        inference: Which model is evaluated; None: the algorithm's own choice.
        aggregation: How uploads become one: "mean", or another rule of `Aggregation`.
        seed: The seed of the run.
        layers: The flat vector's parts, one slice for each parameter tensor of the module.
    """

    rounds: int
    clients: int
    cohort: int | float
    sampling: str
    weighting: str
    steps: tuple[int, ...] | int | None
    inference: str | None
    aggregation: str
    seed: int
    layers: tuple[slice, ...]


class Step(NamedTuple):
    """One local step of one client, as `Algorithm.direction` gets it.

    Attributes:
        g: The minibatch gradient at y, clipped and with weight decay where these are set.
        y: The local iterate.
        g_x: The same minibatch's gradient at x, if the algorithm sets `anchor_gradient`; else None.
    """

    g: Vector
    y: Vector
    g_x: OnRequest = None


class Round(NamedTuple):
    """Facts of the round: of one client in its own methods, means over the cohort in `Algorithm.update`.

    Attributes:
        t: The round, from 1.
        lr: The local learning rate of this round, after decay.
        steps: On a client K, its local steps; on the server K_bar, their mean over the cohort.
        examples: On a client n_i, its examples; on the server their mean over the cohort.
        cohort: M, the clients of this round.
        clients: N, all training clients.
        layers: The flat vector's parts, one slice for each parameter tensor of the module.
        gradient: On a client, its full-batch gradient at x, if `full_gradient` is "after" or "before"; else None.
        cohort_gradient: The cohort's mean full-batch gradient at x, known before the local steps, if `full_gradient` is
            "before"; else None.
    """

    t: Scalar
    lr: Scalar
    steps: Scalar
    examples: Scalar
    cohort: int
    clients: int
    layers: tuple[slice, ...]
    gradient: OnRequest = None
    cohort_gradient: OnRequest = None


class Model(NamedTuple):
    """The server state, or the message, of an algorithm that needs no more than the model.

    Attributes:
        x: The model, one flat vector.

    Examples:
        >>> import torch
        >>> from driftless import Model
        >>> Model(torch.zeros(3)).x
        tensor([0., 0., 0.])
    """

    x: Vector


class Delta(NamedTuple):
    """The upload of an algorithm that needs no more than the client's progress.

    Attributes:
        delta: y - x, one flat vector.

    Examples:
        >>> import torch
        >>> from driftless import Delta
        >>> x, y = torch.ones(2), torch.tensor([1.5, 0.0])
        >>> Delta(y - x).delta
        tensor([ 0.5000, -1.0000])
    """

    delta: Vector


# States, messages and uploads differ in type from algorithm to algorithm. A method that annotates them with its own
# NamedTuples, as in `def update(self, server: Server, mean: Upload, r)`, has their fields checked by a type checker.
Server = Any
Client = Any
Message = Any
Local = Any
Upload = Any


class Algorithm(ABC):
    """A federated algorithm: subclass it as a frozen dataclass, and override what differs from FedAvg.

    An algorithm is a frozen dataclass of hyper-parameters with a few pure methods on flat vectors. Client methods are
    written for ONE client; the engine lifts them over a block of clients with `torch.func.vmap`. `self` never changes:
    everything that changes is in the server state, the client state or the local state, which are NamedTuples of
    tensors. The server receives only means of uploads, which makes blocks, workers, streaming and secure aggregation
    possible for every algorithm. Only `update` has no default.

    One round, as the engine runs it:

        msg = broadcast(server)
        for each client i of the cohort:
            y, local = msg.x, init_local(msg, client_i, r)
            repeat K_i times:
                d, local = direction(Step(g, y), local, msg, client_i, r)
                y <- y - lr * d
            upload_i, client_i = upload(y, local, msg, client_i, r)
        server = update(server, mean of upload_i, r)

    `server`, `client` and `local` are states: the server's, the client's between its rounds, and the client's during
    its local steps. `msg` is what the server sends to a client, `mean` the mean of what the clients send back, `x` and
    `y` are flat vectors of all parameters, and `r` has the facts of the round, a `Round`.

    Rules for an implementation: no Python branch on tensor values and no `None` in a state ("never seen" is a number,
    such as `t_last = 0`), because client methods run under vmap; no in-place operation, because inputs belong to the
    caller.

    Attributes:
        name: Its name on the command line and in `ALGORITHMS`; empty for a class that is given as FILE.py:NAME.
        citation: Where it was published.
        weighting: The paper's average over clients: by "examples" or "uniform". A run can override it.
        uniform: Upload fields that are averaged uniformly whatever the weighting.
        anchor_gradient: True asks for `step.g_x`.
        full_gradient: Asks for full-batch gradients at x: "after" fills `r.gradient` for `upload`; "before" also fills
            `r.cohort_gradient`, at the price of one more exchange before the local steps; "" asks for none.
        public: Upload fields that depend on the facts of the round, `r`, and not on the client's training. Where
            uploads are protected (driftless.privacy) the server fills them in by itself.
        needs_clients: Whether a round without any client changes nothing. False: `update` gets zeros as means, and
            r.cohort = 0.
        local_must_be: Values of the local training that the algorithm is defined for; a run that contradicts them is an
            error.

    Examples:
        >>> from dataclasses import dataclass
        >>> import driftless
        >>> @dataclass(frozen=True)
        ... class SignedFedAvg(driftless.Algorithm):
        ...     server_lr: float = 0.01
        ...
        ...     def update(self, server, mean, r):
        ...         return driftless.Model(server.x + self.server_lr * mean.delta.sign())
        >>> federation = driftless.load("digits", clients=10)
        >>> result = driftless.simulate(SignedFedAvg(), federation, "logistic", rounds=2, cohort=5)
        >>> len(result.history)
        2
    """

    name: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    weighting: ClassVar[str] = "examples"
    uniform: ClassVar[frozenset[str]] = frozenset()
    anchor_gradient: ClassVar[bool] = False
    full_gradient: ClassVar[str] = ""
    public: ClassVar[frozenset[str]] = frozenset()
    needs_clients: ClassVar[bool] = True
    local_must_be: ClassVar[Mapping[str, object]] = {}

    def for_run(self, plan: Plan) -> Self:
        """The algorithm with what it takes from the plan of a run; raises InputError if it does not fit."""
        return self

    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before the run."""
        return ()

    def init_server(self, x: Vector, facts: Facts) -> Server:
        """The server state before the first round; it has a field `x`, the model."""
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
