"""Does the model take the inputs, do its outputs fit the targets and the loss?"""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, cast_floats, described, named_inputs, take
from driftless.engine.device import moved, moved_inputs
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, class_dimension, default_loss
from driftless.errors import InputError
from driftless.random import torch_stream


@torch.no_grad()
def check_fit(model: FlatModel, federation: Federation, loss: Loss) -> Tensor:
    """One forward pass on two examples: does the model take the inputs, do its outputs fit the targets? The outputs."""
    rows = extreme_examples(federation.inputs)
    inputs = moved_inputs(cast_floats(take(federation.inputs, rows), model.initial.dtype), model.device)
    targets = moved(federation.targets[rows], model.device)
    try:
        with torch_stream(0, "fit"):
            model.resident.load(model.initial)
            returned = model.resident.returned(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"the model cannot compute on inputs of shape {described(inputs, 0)}: {error}. "
            "Give a model whose forward takes a batch of such inputs."
        ) from error
    try:
        outputs = model.output(returned)
    except Exception as error:
        raise InputError(
            f"output= fails on what the model returns ({type(returned).__name__}): {type(error).__name__}: {error}. "
            "Give a function that takes the tensor of outputs out of it, or leave it out for a model that returns one."
        ) from error
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the model must return one tensor, got {type(outputs).__name__}; say how to get the tensor out of it, for "
            "example output=lambda o: o.logits."
        )
    labels = not targets.is_floating_point()
    if labels and federation.classes is not None and loss is default_loss(targets):
        classes = class_dimension(loss, outputs, targets)
        fits = classes is not None and outputs.shape[classes] >= federation.classes
        wanted = str(["batch", f"classes >= {federation.classes}", *targets.shape[1:]]).replace("'", "")
    else:
        fits = labels or outputs.shape == targets.shape or loss is not default_loss(targets)
        wanted = str(["batch", *targets.shape[1:]]).replace("'", "") + " of the targets"
    if not fits:
        raise InputError(
            f"the model's output {['batch', *outputs.shape[1:]]} does not fit the targets ({len(federation.targets)} "
            f"{'labels below ' + str(federation.classes) if labels else 'numbers'}): it must have the shape {wanted}. "
            f"Change the model's last layer{'' if labels else ', or the shape of the targets'}."
        )
    check_loss(loss, outputs, targets)
    return outputs


def doubts(outputs: Tensor, federation: Federation, loss: Loss) -> tuple[str, ...]:
    """What can be trained and is probably not meant."""
    classes = class_dimension(loss, outputs, federation.targets[: len(outputs)])
    if loss is not default_loss(federation.targets) or classes is None or outputs.shape[classes] < 2:
        return ()
    sums = outputs.sum(classes)
    if outputs.min() < 0 or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        return ()
    return (
        "the model's outputs look like probabilities (they sum to 1), but cross-entropy takes logits: "
        "without a softmax at the end the model learns faster",
    )


def extreme_examples(inputs: Inputs) -> list[int]:
    """The first two examples; of tokens, those with the smallest and the largest: is the vocabulary large enough?"""
    rows: list[int] = []
    for part in named_inputs(inputs).values():
        if part.is_floating_point() or part.numel() == 0:
            rows += range(len(part[:2]))
        else:
            each = part.reshape(len(part), -1)
            rows += [int(each.amin(1).to(torch.int64).argmin()), int(each.amax(1).to(torch.int64).argmax())]
    return rows


def check_loss(loss: Loss, outputs: Tensor, targets: Tensor) -> None:
    """Is the loss a function of (outputs, targets) that returns one number?"""
    wanted = "loss must be a function (outputs, targets) -> the mean over the batch, one differentiable number"
    if not callable(loss):
        raise InputError(f"loss is {loss!r}; {wanted}. Leave it out for the default.")
    with torch.enable_grad():
        try:
            value = loss(outputs.clone().requires_grad_(), targets)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(
                f"the loss cannot be computed from outputs of shape {list(outputs.shape)} and targets of shape "
                f"{list(targets.shape)}: {error}. {wanted.capitalize()}."
            ) from error
    if not isinstance(value, Tensor) or value.dim() != 0 or not value.requires_grad:
        shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"the loss returned {shape}, not one number that depends on the outputs; {wanted}.")
