"""Local training of ONE client: its settings, and a local step as a pure function, which block.py lifts with vmap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad

from driftless.algorithm import Algorithm, Client, Local, Message, Round, Step, Upload, Vector
from driftless.data.inputs import Inputs, map_inputs
from driftless.engine import augment
from driftless.engine.flat import FlatModel, Parameters
from driftless.engine.losses import Loss, correct, weighted
from driftless.engine.round_values import LR, STEPS, LearningRate, Steps
from driftless.errors import InputError, check_choice, check_range, check_whole, unknown

LAST_BATCH = ("short", "bootstrap", "drop")
DEFAULT_EPOCHS = 5
"""Where neither epochs nor steps are given."""


@dataclass(frozen=True)
class LocalTraining:
    """What a client does in a round: `epochs` over its examples, or exactly `steps` minibatches.

    Attributes:
        lr: The local learning rate: a positive number; a list with one for each round, of which the last one stays; or
            a function of the round (1, 2, ...). Default 0.1.
        epochs: Passes over the client's examples, at least 1. Default 5 if `steps` is not given; give one of both.
        steps: An exact number of minibatches; like `lr` also a list or a function of the round. Default None: `epochs`
            decide.
        batch_size: Examples of a minibatch; None is the full local batch. Default 10.
        last_batch: What happens when the batch size does not divide the client's examples: "short" (default) takes the
            remainder as it is, "bootstrap" fills it by drawing again from the client's own examples, "drop" leaves it
            out.
        weight_decay: This times y is added to the gradient; at least 0. Default 0.
        clip_norm: The norm to which the gradient of the loss is clipped, before weight decay is added. Default None: it
            is not clipped.
        lr_decay: Round t uses the learning rate lr * lr_decay^(t-1); in (0, 1]. Default 1.
        momentum: That of torch.optim.SGD, on the algorithm's direction d: v <- momentum * v + d, y <- y - lr * v, where
            v begins at 0 in each round; in [0, 1). Default 0.
        augment: How the images of each minibatch are changed at random: "none" (default); "flip" mirrors an image
            left-right with probability 1/2; "crop-flip" first pads it with 4 zeros on all sides and crops it at a
            random place to its old size; "half-crop-flip" crops with probability 1/2 only. Full-batch gradients and
            evaluations see the images as they are.

    Examples:
        >>> import driftless
        >>> driftless.LocalTraining(lr=0.05).epochs
        5
        >>> local = driftless.LocalTraining(lr=[0.1, 0.05], steps=20, batch_size=32, lr_decay=0.5)
        >>> [local.lr_at(t) for t in (1, 2, 3)]
        [0.1, 0.025, 0.0125]
    """

    lr: LearningRate = field(default=0.1, hash=False)  # a list would be hashed anew for each client
    epochs: int | None = None
    steps: Steps | None = None
    batch_size: int | None = 10
    last_batch: str = "short"
    weight_decay: float = 0.0
    clip_norm: float | None = None
    lr_decay: float = 1.0
    momentum: float = 0.0
    augment: str = "none"

    def __post_init__(self) -> None:
        if self.epochs is not None and self.steps is not None:
            raise InputError(
                f"local.epochs={self.epochs} and local.steps={self.steps} are both given; "
                "give one: epochs for passes over the local data, steps for an exact number of minibatches."
            )
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", DEFAULT_EPOCHS)
        for name in ("epochs", "batch_size"):
            check_whole(f"local.{name}", getattr(self, name), 1, other=None)
        object.__setattr__(self, "lr", LR.checked(self.lr))
        object.__setattr__(self, "steps", None if self.steps is None else STEPS.checked(self.steps))
        check_range("local.lr_decay", self.lr_decay, 0, 1, low_open=True)
        check_range("local.momentum", self.momentum, 0, 1, high_open=True)
        check_range("local.weight_decay", self.weight_decay, 0, math.inf, high_open=True)
        if self.clip_norm is not None:
            check_range("local.clip_norm", self.clip_norm, 0, math.inf, low_open=True, high_open=True)
        check_choice("local.last_batch", self.last_batch, LAST_BATCH)
        if self.augment not in list(augment.KINDS):
            raise unknown("local.augment", str(self.augment), augment.KINDS)

    def lr_at(self, t: int) -> float:
        """The learning rate of round t, after decay."""
        return LR.at(self.lr, t) * self.lr_decay ** (t - 1)

    def steps_at(self, t: int) -> int | None:
        """The minibatches of round t; None: `epochs` decide."""
        return None if self.steps is None else STEPS.at(self.steps, t)

    def in_round(self, t: int) -> LocalTraining:
        """With the number of steps of round t."""
        if not (isinstance(self.steps, Sequence) or callable(self.steps)):
            return self
        found = copy(self)  # without checking all of it again for each round
        object.__setattr__(found, "steps", self.steps_at(t))
        return found

    def for_rounds(self, rounds: int) -> LocalTraining:
        """With the learning rate and the steps of each round, where they are functions."""
        return replace(self, lr=LR.of_rounds(self.lr, rounds), steps=STEPS.of_rounds(self.steps, rounds))


def check_agreement(algorithm: Algorithm, local: LocalTraining) -> None:
    """Raise if the local training contradicts what the algorithm is defined for (FedSGD)."""
    required = algorithm.local_must_be
    one_step = local.steps == 1 or (local.epochs == 1 and local.batch_size is None)
    given = {name: getattr(local, name) for name in required} | ({"steps": 1} if one_step else {})
    wrong = {name: value for name, value in given.items() if name in required and value != required[name]}
    if "steps" in wrong and local.steps is None:
        del wrong["steps"]
        wrong = {"epochs": local.epochs, **wrong}
    if wrong:
        said = ", ".join(f"local.{name}={value}" for name, value in wrong.items())
        allowed = ", ".join(f"local.{name}={value}" for name, value in required.items())
        raise InputError(
            f"{type(algorithm).__name__} is defined for {allowed}; got {said}. Set these values or leave them out."
        )


class Batch(NamedTuple):
    """One minibatch of one client."""

    inputs: Inputs
    targets: Tensor
    weights: Tensor | None = None
    """1 for an example, 0 for padding; None when there is no padding."""
    key: Tensor | None = None
    """Decides what dropout drops; None for a model without dropout."""

    def copy(self) -> Batch:
        """Inputs and targets of its own: a layer or a loss may write over them."""
        return self._replace(inputs=map_inputs(Tensor.clone, self.inputs), targets=self.targets.clone())


class Seen(NamedTuple):
    """By-products of a gradient."""

    loss: Tensor
    """The mean over the batch."""
    correct: Tensor
    """How many examples of the batch were classified correctly; not a number for regression."""


Gradient = Callable[[Vector, Batch], tuple[Vector, Seen]]
"""(vector, batch) -> (gradient, by-products)."""


def loss_gradient(model: FlatModel, loss: Loss) -> Gradient:
    """The gradient of the mean loss on a batch, in a way that vmap can lift.

    It is taken by the slices of the vector, not through them: the backward of a slice would fill a whole vector.
    """

    def within(parameters: Parameters, batch: Batch) -> tuple[Tensor, tuple[list[Tensor], Tensor, Tensor]]:
        """The gradient is taken here; `grad` is given nothing to do but to lift it.

        Its own way of taking gradients first imports torch's compiler: half of the time until a run's first round.
        """
        value, correct = batch_loss(model, loss, parameters, batch)
        g = gradient_by(value, list(parameters.values()))
        return value.detach(), (g, value.detach(), correct)

    lifted = grad(within, has_aux=True)

    def at(y: Vector, batch: Batch) -> tuple[Vector, Seen]:
        _, (g, value, correct) = lifted(model.parameters(y), batch)
        return torch.cat([part.flatten() for part in g]), Seen(value.to(y), correct.to(y))

    return at


def gradient_by(value: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Zeros for a parameter on which the value does not depend."""
    if not value.requires_grad:
        return [torch.zeros_like(parameter) for parameter in parameters]
    return list(torch.autograd.grad(value, parameters, create_graph=True, materialize_grads=True))


def batch_loss(model: FlatModel, loss: Loss, parameters: Parameters, batch: Batch) -> tuple[Tensor, Tensor]:
    """The mean loss, and how many examples are classified correctly."""
    with model.computing():
        outputs = model.train(parameters, batch.inputs, batch.key)
        correct = number_correct(loss, outputs, batch)  # before the loss, which may write over both
        if batch.weights is None:
            return loss(outputs, batch.targets), correct
        return weighted(loss, outputs, batch.targets, batch.weights), correct


def number_correct(loss: Loss, outputs: Tensor, batch: Batch) -> Tensor:
    each = correct(loss, outputs, batch.targets)
    if each.numel() == 0:
        return outputs.new_full((), torch.nan)
    return (each if batch.weights is None else each * batch.weights).sum()


def regularised(g: Vector, y: Vector, training: LocalTraining) -> Vector:
    """The gradient that algorithms see: clipped, then with weight decay."""
    clip_norm, weight_decay = training.clip_norm, training.weight_decay
    if clip_norm is not None:
        norm = g.norm()
        above = norm > clip_norm
        g = g * torch.where(above, clip_norm / torch.where(above, norm, 1.0), 1.0)
    return g + weight_decay * y if weight_decay else g


Velocity = Vector | tuple[()]
"""The sum of directions that local momentum follows; () without momentum, so that it costs nothing."""


def initial_velocity(x: Vector, training: LocalTraining) -> Velocity:
    return torch.zeros_like(x) if training.momentum else ()


def with_momentum(d: Vector, velocity: Velocity, training: LocalTraining) -> tuple[Vector, Velocity]:
    """The direction of the step, and the velocity after it."""
    if isinstance(velocity, tuple):
        return d, velocity
    velocity = torch.add(d, velocity, alpha=training.momentum)
    return velocity, velocity


class Progress(NamedTuple):
    """A client in the middle of its local steps."""

    y: Vector
    local: Local
    loss: Tensor
    """Sum over the steps so far."""
    correct: Tensor
    """Sum over the examples of the steps so far."""
    velocity: Velocity = ()


class LocalStep(NamedTuple):
    """What a local step needs that is the same for all clients of the run."""

    algorithm: Algorithm
    gradient: Gradient
    training: LocalTraining

    def begin(self, msg: Message, client: Client, r: Round) -> Progress:
        zero = msg.x.new_zeros(())
        local = self.algorithm.init_local(msg, client, r)
        return Progress(msg.x, local, zero, zero, initial_velocity(msg.x, self.training))

    def __call__(self, now: Progress, batch: Batch, msg: Message, client: Client, r: Round) -> Progress:
        """y <- y - lr * d, with local momentum y <- y - lr * v."""
        again = batch.copy() if self.algorithm.anchor_gradient else batch
        g, seen = self.gradient(now.y, batch)  # may write over the batch
        g = regularised(g, now.y, self.training)
        g_x = None
        if self.algorithm.anchor_gradient:
            g_x = regularised(self.gradient(msg.x, again)[0], msg.x, self.training)
        d, local = self.algorithm.direction(Step(g, now.y, g_x), now.local, msg, client, r)
        d, velocity = with_momentum(d, now.velocity, self.training)
        y = torch.addcmul(now.y, d, r.lr, value=-1)  # one pass over the memory
        return Progress(y, local, now.loss + seen.loss, now.correct + seen.correct, velocity)

    def finish(self, now: Progress, msg: Message, client: Client, r: Round) -> tuple[Upload, Client]:
        return self.algorithm.upload(now.y, now.local, msg, client, r)

    def accumulate(self, total: Vector, x: Vector, chunk: Batch, share: Tensor) -> Vector:
        """A full-batch gradient, chunk by chunk: `share` of the client's examples are in this one."""
        return total + self.gradient(x, chunk)[0] * share


class Trained(NamedTuple):
    """What local training leaves behind: of one client, or stacked for a block of clients."""

    y: Vector
    upload: Upload
    client: Client
    loss: Tensor
    """Mean training loss over the local steps."""
    accuracy: Tensor
    """Share of the examples of the local steps that were classified correctly; not a number for regression."""
