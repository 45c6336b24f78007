"""Before a run: do the engine's ways of computing a gradient agree with plain torch on the user's own module?

Each way is tried on one minibatch with labels of every class, at a vector that is not x^0 (where a last layer of zeros
would hide differences). What differs by more than rounding is refused, with the reason.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from driftless.algorithm import Vector
from driftless.data.inputs import arguments, cast_floats, take
from driftless.engine import augment
from driftless.engine.batches import chunks
from driftless.engine.device import moved, moved_inputs
from driftless.engine.flat import FlatModel, converted
from driftless.engine.graph.record import NotRecordable, record, total_bytes
from driftless.engine.graph.replay import same_bits
from driftless.engine.local import Batch, Seen, loss_gradient
from driftless.engine.minibatches import Workload
from driftless.engine.modes import begin_training, kept_in_eval
from driftless.engine.module_state import SavedState
from driftless.engine.single import gradient
from driftless.engine.tree import map_leaves
from driftless.errors import InputError
from driftless.random import stream, torch_stream

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float64: 1e-8}
"""Of the largest entry of a parameter's gradient. Rounding is far below, a wrong weight far above."""
FLOOR = 1e-2
"""Share of the largest entry of the whole gradient below which a parameter's gradient may be nothing but rounding."""
MOST_EXAMPLES = 512
"""Of the minibatch that is tried."""
REPETITIONS = 3
"""Equal calls must give equal bits."""


def trial_batch(work: Workload) -> Batch:
    """Examples of every class, as many as a minibatch has."""
    federation, width = work.federation, minibatch_width(work)
    first = federation.first_of_each_label[:MOST_EXAMPLES]
    fill = stream(work.seed, "trial-batch").integers(len(federation.targets), size=max(2, min(width, MOST_EXAMPLES)))
    rows = torch.from_numpy(np.concatenate([first, fill])[: max(len(first), len(fill))])
    inputs, targets = cast_floats(take(federation.inputs, rows), work.model.initial.dtype), federation.targets[rows]
    return Batch(moved_inputs(inputs, work.model.device), moved(targets, work.model.device))


def minibatch_width(work: Workload) -> int:
    return int(work.federation.sizes.max()) if work.training.batch_size is None else work.training.batch_size


def perturbed(model: FlatModel, seed: int) -> Vector:
    """Near x^0, with no layer of equal numbers."""
    x = model.initial.clone()
    noise = torch.from_numpy(stream(seed, "trial-vector").standard_normal(len(x))).to(x)
    for layer in model.layers:
        x[layer] += noise[layer] * max(0.1 * float(x[layer].square().mean().sqrt()), 0.01)
    return x


# -------------------------------------------------------------------------------------------- single against the user's


def check_single(work: Workload, module: nn.Module) -> None:
    """Raise unless the engine's copy of the module has the gradient that the user's module has in plain torch."""
    batch, x = trial_batch(work), perturbed(work.model, work.seed)
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    with restored(module):
        converted(module, x.dtype, x.device)
        for values, p in zip(work.model.parameters(x).values(), parameters.values(), strict=True):
            p.data, p.grad = values.clone(), None
        try:
            with torch_stream(work.seed, "trial"):
                ours = copy_gradient(work, x, batch)
            used = next((name for name, p in parameters.items() if p.grad is not None), None)
            with torch_stream(work.seed, "trial"):
                plain_backward(module, work, batch)
        except Exception as error:
            raise InputError(
                f"forward, loss and backward pass of the model fail on a minibatch of {len(batch.targets)} examples: "
                f"{type(error).__name__}: {error}. Do the outputs depend on the parameters (no detach, no no_grad)?"
            ) from error
        theirs = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in parameters.values()]
    if used is not None:
        raise InputError(
            f"the loss depends on the module that was given (its parameter '{used}'), and the engine trains a copy of "
            "it; write the loss as a function of outputs and targets alone, and use local.weight_decay for a "
            "regulariser."
        )
    floor = FLOOR * max(float(g.abs().max()) for g in theirs if g.numel())
    for (name, p), a, b in zip(parameters.items(), ours, theirs, strict=True):
        if difference(a, b, floor) > TOLERANCE[work.model.precision]:
            hooked = "the parameter has a hook, which a copy of it does not have"
            outside = "something outside of the module refers to it, or it computes something else in each call"
            raise InputError(
                f"a copy of the model has another gradient than the model itself, in the parameter '{name}': "
                f"{hooked if p._backward_hooks else outside}. The engine trains a copy: put all that belongs to the "
                "model into the module itself."
            )


def copy_gradient(work: Workload, x: Vector, batch: Batch) -> list[Tensor]:
    work.model.resident.load(x)
    g, _ = gradient(work.model, work.loss, batch.copy())
    return [part.clone() for part in work.model.parameters(g).values()]


def plain_backward(module: nn.Module, work: Workload, batch: Batch) -> None:
    begin_training(module, kept_in_eval(module))
    for part in module.modules():
        if type(part) is nn.Dropout:  # the engine has its own; they are tested against each other elsewhere
            part.eval()
    batch = batch.copy()
    args, kwargs = arguments(batch.inputs)
    with torch.enable_grad(), work.model.computing():
        value = work.loss(work.model.output(module(*args, **kwargs)), batch.targets)
    value.backward()


@contextmanager
def restored(module: nn.Module) -> Generator[None]:
    """The user's module is as it was afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    parameters = [(p, p.data, p.grad) for p in module.parameters()]
    buffers = [(b, b.data) for b in module.buffers()]
    saved = SavedState(module)
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        for p, data, grad in parameters:
            p.data, p.grad = data, grad
        for b, data in buffers:
            b.data = data
        saved.restore()


# ------------------------------------------------------------------------------------------------ block against single


class BlockTrial(NamedTuple):
    """The outcome of trying a block."""

    problem: str | None
    """Why there can be no blocks; None if there can."""
    bytes_of_a_client: float = 0.0
    """Memory of one client's step while it is recorded."""
    slow: bool = False
    """Whether vmap has no rule of its own for some operation and computes it client by client."""


def try_block(work: Workload) -> BlockTrial:
    """Two clients in a block, the second with padding, against one after the other."""
    batch, x = trial_batch(work), perturbed(work.model, work.seed)
    key = torch.tensor([1, 2], device=x.device) if work.model.uses_dropout else None
    width = len(batch.targets)
    short = max(1, width - width // 3)
    weights = x.new_ones(2, width)
    weights[1, short:] = 0
    stacked: Batch = map_leaves(lambda part: torch.stack([part, part.flip(0)]), batch)
    stacked = stacked._replace(weights=weights, key=key)
    # Each client has a model of its own, except where an algorithm wants gradients at the server's.
    shared = work.algorithm.anchor_gradient or work.algorithm.full_gradient
    start, of_model = (x, None) if shared else (x.repeat(2, 1), 0)
    lifted = vmap(loss_gradient(work.model, work.loss), in_dims=(of_model, dims(stacked)), randomness="error")

    def block_gradient(_: tuple[()], padded: Batch, at: Vector) -> tuple[Vector, Seen]:
        return lifted(at, padded)

    work.model.resident.load(x)
    try:
        with torch_stream(work.seed, "trial"), torch.no_grad(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            at = start.clone()
            (together, seen), recorded = record(block_gradient, (), stacked.copy(), at)
            again = [lifted(start.clone(), stacked.copy()) for _ in range(REPETITIONS)]
    except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError) as error:
        return BlockTrial(f"vmap cannot lift it: {str(error).splitlines()[0][:160]}")
    if not torch.equal(at, start):
        return BlockTrial("its forward pass writes into its parameters")
    if work.model.resident.is_changed():
        return BlockTrial("its forward pass changes an attribute or a buffer of its own")
    if not all(same_bits(together, other) for other, _ in again):
        return BlockTrial("equal calls give different results")
    for i, count in enumerate((width, short)):
        own = Batch(take(stacked.inputs, (i, slice(count))), stacked.targets[i, :count]).copy()
        own = own._replace(key=None if key is None else key[i])
        problem = compare_with_single(work, x, own, together[i], Seen(seen.loss[i], seen.correct[i]), padded=i == 1)
        if problem:
            return BlockTrial(problem)
    slow = any("performance drop" in str(warning.message) for warning in warned)
    if isinstance(recorded, NotRecordable):
        return BlockTrial(None, 20 * x.numel() * x.element_size(), slow)
    other = width // 2 if width > 3 else 2 * width
    with torch_stream(work.seed, "trial"), warnings.catch_warnings(action="ignore"):
        _, of_other = record(block_gradient, (), of_width(stacked, other), start.clone())
    assert not isinstance(of_other, NotRecordable)
    size, size_of_other = total_bytes(recorded) / 2, total_bytes(of_other) / 2
    images = batch.inputs if augment.KINDS[work.training.augment] else None
    room = augment.room(images) if isinstance(images, Tensor) else 0
    return BlockTrial(None, room + step_bytes(work, size, width, (size_of_other - size) / (other - width)), slow)


def step_bytes(work: Workload, size: float, width: int, of_an_example: float) -> float:
    """Of a client's largest step, given the `size` of a gradient on `width` examples."""
    steps = [(2 if work.algorithm.anchor_gradient else 1, minibatch_width(work))]
    if work.algorithm.full_gradient:
        steps.append((1, int(chunks(int(work.federation.sizes.max())).index.shape[1])))
    return max(gradients * (size + of_an_example * (examples - width)) for gradients, examples in steps)


def of_width(batch: Batch, width: int) -> Batch:
    """A block's minibatches, with examples left out or repeated."""
    rows = torch.arange(width, device=batch.targets.device) % batch.targets.shape[1]
    return map_leaves(lambda part: part[:, rows], batch._replace(key=None))._replace(key=batch.key)


def compare_with_single(work: Workload, x: Vector, batch: Batch, g: Vector, seen: Seen, padded: bool) -> str | None:
    work.model.resident.load(x)
    with torch_stream(work.seed, "trial"):
        expected, seen_expected = gradient(work.model, work.loss, batch)
    where = "a minibatch with padding" if padded else "a minibatch"
    tolerance = TOLERANCE[work.model.precision]
    expected_parts, floor = work.model.parameters(expected), FLOOR * float(expected.abs().max())
    for name, part in work.model.parameters(g).items():
        if (off := difference(part, expected_parts[name], floor)) > tolerance:
            return (
                f"on {where} the gradient of '{name}' differs by {off:.1%} from that of one client alone (is the loss "
                "a mean over the examples of a batch, and does the model treat every example by itself?)"
            )
    if difference(seen.loss, seen_expected.loss) > tolerance:
        return f"on {where} the loss is {float(seen.loss):.5g}, of one client alone {float(seen_expected.loss):.5g}"
    return None


def dims(batch: Batch) -> Batch:
    return Batch(*(None if part is None else 0 for part in batch))  # pyright: ignore[reportArgumentType]


def difference(a: Tensor, b: Tensor, floor: float = 0.0) -> float:
    """The largest difference relative to the largest number, or to `floor`; NaN in the same places counts as equal."""
    if a.numel() == 0:
        return 0.0
    both = torch.isnan(a) & torch.isnan(b)
    a, b = a.masked_fill(both, 0.0), b.masked_fill(both, 0.0)
    if torch.equal(a, b):
        return 0.0
    scale, off = max(floor, float(a.abs().max()), float(b.abs().max())), float((a - b).abs().max())
    return off / scale if math.isfinite(off) else math.inf
