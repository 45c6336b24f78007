"""Losses: any function (outputs, targets) -> mean over the examples, and what the engine needs besides the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy; the classes are the last dimension or, if only that fits the targets, the second."""
    return each_cross_entropy(outputs, targets).mean()


def each_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per label. A third of the operations of F.cross_entropy under vmap, which looks for labels to ignore."""
    if outputs.dim() > 2 and class_dimension(cross_entropy, outputs, targets) == 1:
        outputs = outputs.movedim(1, -1)
    return -F.log_softmax(outputs, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def half_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """1/2 (output - target)^2, summed over an example's outputs, averaged over the examples."""
    return (
        0.5 * (outputs - targets).square().flatten(1).sum(1).mean()
        if outputs.dim() > 1
        else (0.5 * (outputs - targets).square().mean())
    )


LOSSES: dict[str, Loss] = {"cross-entropy": cross_entropy, "half-squared-error": half_squared_error}


def default_loss(targets: Tensor) -> Loss:
    """Cross-entropy for labels (integers), half the squared error for numbers."""
    return half_squared_error if targets.is_floating_point() else cross_entropy


def weighted(loss: Loss, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The mean of the loss over the examples of positive weight.

    A batch is padded to a common size and the padding has weight 0. The loss is taken example by example, because it
    is the user's and only knows means.
    """
    if loss is cross_entropy:
        each = each_cross_entropy(outputs, targets)
        each = each.flatten(1).mean(1) if each.dim() > 1 else each
    else:
        each = vmap(loss)(outputs.unsqueeze(1), targets.unsqueeze(1))
    return (each * weights).sum() / weights.sum()


def correct(loss: Loss, outputs: Tensor, targets: Tensor, ignored: Sequence[int] = ()) -> Tensor:
    """How much of each example is classified correctly: 0 or 1, a share for sequences and images; else empty.

    With ignored labels: how many of the others are, of `counted(targets, ignored)`.
    """
    dimension = class_dimension(loss, outputs, targets)
    if dimension is None:
        return outputs.new_zeros(0)
    found = outputs.argmax(dimension) == targets
    if ignored:
        return (found & ~is_ignored(targets, ignored)).reshape(len(found), -1).sum(1).to(outputs.dtype)
    found = found.to(outputs.dtype)
    return found.flatten(1).mean(1) if found.dim() > 1 else found


def counted(targets: Tensor, ignored: Sequence[int]) -> Tensor:
    """What the correct part of each example is a part of: 1, with ignored labels the number of the others."""
    if not ignored:
        return torch.ones(len(targets), dtype=torch.float64, device=targets.device)
    return (~is_ignored(targets, ignored)).reshape(len(targets), -1).sum(1).double()


def is_ignored(targets: Tensor, ignored: Sequence[int]) -> Tensor:
    return torch.isin(targets, torch.tensor(ignored, device=targets.device))


def class_dimension(loss: Loss, outputs: Tensor, targets: Tensor) -> int | None:
    """Which dimension of the outputs has a number for each class; None if the targets are no labels of the outputs.

    [batch, ..., classes], or [batch, classes, ...] as torch's own cross_entropy has it. Where both fit, a user's loss
    may mean either.
    """
    if targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        return None
    last = outputs.shape[:-1] == targets.shape and outputs.shape[-1] > 1
    second = outputs.dim() > 2 and (len(outputs), *outputs.shape[2:]) == targets.shape and outputs.shape[1] > 1
    if last and second and loss is not cross_entropy:
        return None
    return -1 if last else 1 if second else None
