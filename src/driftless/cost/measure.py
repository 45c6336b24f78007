"""The cost of one algorithm on one model: vectors, bytes and FLOPs, per client and round."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from driftless.algorithm import Algorithm
from driftless.cost.counting import Counting, Example, Operations, gradient_flops
from driftless.cost.rehearsal import Rehearsal
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, default_loss
from driftless.engine.round import size_in_bytes, traffic
from driftless.engine.tree import Tree, leaves
from driftless.errors import check_whole

STEPS, BATCH_SIZE = 10, 32
"""What a client does in a round unless said otherwise."""


class Amounts(NamedTuple):
    """Numbers of vectors of the model's size, or of bytes; per client and round.

    Attributes:
        down: Sent to a client.
        up: Sent by a client.
        client: Kept by a client between its rounds.
        server: Kept by the server, the model included.

    Examples:
        >>> from driftless.algorithms import Scaffold
        >>> from driftless.cost import vectors
        >>> vectors(Scaffold()).client
        1
    """

    down: int
    up: int
    client: int
    server: int


@dataclass(frozen=True)
class Cost:
    """What a round of one algorithm costs.

    Attributes:
        algorithm: Its name.
        parameters: P, the numbers in a vector.
        steps: K, local steps.
        batch_size: B, examples of a minibatch.
        examples: n, examples of a client.
        vectors: Vectors of P numbers that are sent and kept.
        bytes: The same in bytes, numbers that are no vectors included.
        gradients: Minibatch gradients a local step: 2 where the algorithm also wants the gradient at x.
        gradient_flops: FLOPs of one minibatch gradient, forward and backward; None when only the number of parameters
            is known.
        full_gradient_flops: FLOPs of the gradient of all n examples, once a round; 0 where the algorithm does not ask
            for it.
        step: Vector FLOPs of one local step: the direction and y <- y - lr * d.
        round: Vector FLOPs of a client once a round: the upload, and putting the full gradient together.
        server: Vector FLOPs of the server once a round: update and broadcast. The mean over the cohort is not in it.

    Examples:
        >>> from driftless.algorithms import FedAvg
        >>> from driftless.cost import measure
        >>> cost = measure(FedAvg(), 1000, steps=5)
        >>> cost.step["multiply"], cost.vector_flops
        (1000, 11000)
    """

    algorithm: str
    parameters: int
    steps: int
    batch_size: int
    examples: int
    vectors: Amounts
    bytes: Amounts
    gradients: int
    gradient_flops: int | None
    full_gradient_flops: int | None
    step: Operations
    round: Operations
    server: Operations

    @property
    def model_flops(self) -> int | None:
        """Of all gradients of a client in a round."""
        if self.gradient_flops is None or self.full_gradient_flops is None:
            return None
        return self.steps * self.gradients * self.gradient_flops + self.full_gradient_flops

    @property
    def vector_flops(self) -> int:
        """Of all vector operations of a client in a round."""
        return self.steps * self.step.total() + self.round.total()

    @property
    def client_flops(self) -> int | None:
        """Of gradients and vector operations together; None when only the number of parameters is known."""
        return None if self.model_flops is None else self.model_flops + self.vector_flops


def measure(
    algorithm: Algorithm,
    model: int | nn.Module,
    example: Example | None = None,
    *,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    examples: int | None = None,
    loss: Loss | None = None,
    dtype: torch.dtype = torch.float32,
    name: str | None = None,
) -> Cost:
    """The cost of one algorithm for a model, or for a number of parameters.

    What the algorithm prescribes (FedSGD: one step on all examples) overrides `steps` and `batch_size`.

    Args:
        algorithm: An instance.
        model: A module, or the number of its parameters.
        example: Inputs and targets of at least one example; None: the FLOPs of the model are not known.
        steps: K, local steps. Default 10.
        batch_size: B, examples of a minibatch. Default 32.
        examples: n, examples of a client; None: as many as its steps use.
        loss: A function (outputs, targets) -> mean; None: as `simulate` chooses it.
        dtype: The type of all numbers. Default torch.float32.
        name: The name in tables; None: that of the class.

    Returns:
        Vectors, bytes and FLOPs, per client and round.

    Examples:
        >>> import torch
        >>> from driftless.algorithms import FedAvg
        >>> from driftless.cost import measure
        >>> module, example = torch.nn.Linear(20, 3), (torch.zeros(1, 20), torch.zeros(1, dtype=torch.long))
        >>> cost = measure(FedAvg(), module, example, batch_size=32)
        >>> cost.parameters, cost.bytes.up, cost.gradient_flops
        (63, 252, 7680)
    """
    steps, batch_size, examples = workload(algorithm, steps, batch_size, examples)
    if isinstance(model, int):
        check_whole("the number of parameters", model, 1)
        flat, size = None, model
        layers = (slice(0, size),)
    else:
        flat = FlatModel(on_meta(model), dtype, device=torch.device("meta"))
        size, layers = flat.size, flat.layers
    rehearsal = Rehearsal(algorithm, torch.empty(size, dtype=dtype, device="meta"), layers, examples)
    step, client, server, gradients = count_stages(rehearsal)
    minibatch = full = None
    if flat is not None and example is not None:
        loss = loss or default_loss(example[1])
        minibatch = gradient_flops(flat, loss, example, batch_size)
        full = gradient_flops(flat, loss, example, examples) if algorithm.full_gradient else 0
    return Cost(
        name or type(algorithm).__name__, size, steps, batch_size, examples,
        vectors_of(rehearsal), bytes_of(rehearsal), gradients, minibatch, full, step, client, server,
    )  # fmt: skip


def workload(algorithm: Algorithm, steps: int, batch_size: int, examples: int | None) -> tuple[int, int, int]:
    """(K, B, n), checked, and as the algorithm prescribes them."""
    check_whole("steps", steps, 1)
    check_whole("batch_size", batch_size, 1)
    examples = steps * batch_size if examples is None else examples
    check_whole("examples", examples, 1)
    required: Mapping[str, Any] = algorithm.local_must_be
    steps, batch = required.get("steps", steps), required.get("batch_size", batch_size)
    return steps, examples if batch is None else min(batch, examples), examples


def count_stages(rehearsal: Rehearsal) -> tuple[Operations, Operations, Operations, int]:
    """FLOPs of a step, of a client once a round and of the server; and the gradients that a step asks for."""
    with Counting() as step:
        rehearsal.step()
    gradients = rehearsal.gradients
    with Counting() as client:
        rehearsal.full_gradient()
        upload, _ = rehearsal.upload()
    with Counting() as server:
        rehearsal.broadcast()
        rehearsal.update(upload)
    return step.operations, client.operations, server.operations, gradients


def vectors(algorithm: Algorithm) -> Amounts:
    """How many vectors of the model's size an algorithm sends and keeps.

    Args:
        algorithm: An instance.

    Returns:
        The numbers, per client and round.

    Examples:
        >>> from driftless.algorithms import Scaffold
        >>> from driftless.cost import vectors
        >>> vectors(Scaffold())
        Amounts(down=2, up=2, client=1, server=2)
    """
    size = 10007  # no other tensor of a state has this size
    return vectors_of(Rehearsal(algorithm, torch.empty(size, device="meta"), (slice(0, size),)))


def vectors_of(rehearsal: Rehearsal) -> Amounts:
    size = len(rehearsal.x)

    def count(tree: Tree) -> int:
        return sum(leaf.numel() // size for leaf in leaves(tree) if leaf.dim() and leaf.shape[-1] == size)

    upload, client = rehearsal.upload()
    # A full gradient that is wanted before the local steps goes up, and the cohort's mean comes down.
    extra = int(rehearsal.algorithm.full_gradient == "before")
    return Amounts(count(rehearsal.msg) + extra, count(upload) + extra, count(client), count(rehearsal.update(upload)))


def bytes_of(rehearsal: Rehearsal) -> Amounts:
    upload, client = rehearsal.upload()
    sent = traffic(rehearsal.msg, upload, 1, rehearsal.algorithm)
    kept = size_in_bytes(client), size_in_bytes(rehearsal.update(upload))
    return Amounts(int(sent["bytes_down"]), int(sent["bytes_up"]), *kept)


def on_meta(module: nn.Module) -> nn.Module:
    """A copy without memory; the module itself is not copied on the way."""
    meta = {id(b): b.detach().to("meta") for b in module.buffers()}
    meta |= {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in module.parameters()}
    return copy.deepcopy(module, meta)
