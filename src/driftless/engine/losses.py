"""Losses: any function (outputs, targets) -> mean over the examples, and what the engine needs besides the mean."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy; classes are the last dimension, so sequences work as they are."""
    return each_cross_entropy(outputs, targets).mean()


def each_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per label. A third of the operations of F.cross_entropy under vmap, which looks for labels to ignore."""
    return -F.log_softmax(outputs, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def half_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """1/2 (output - target)^2, summed over an example's outputs, averaged over the examples."""
    return (
        0.5 * (outputs - targets).square().flatten(1).sum(1).mean()
        if outputs.dim() > 1
        else (0.5 * (outputs - targets).square().mean())
    )


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


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """How much of each example is classified correctly: 0 or 1, a share for a sequence; empty for numbers."""
    found = matches(outputs, targets).to(outputs.dtype)
    return found.flatten(1).mean(1) if found.dim() > 1 else found


def matches(outputs: Tensor, targets: Tensor) -> Tensor:
    """Where the largest output is the label; empty when the targets are numbers or not one label per output."""
    if targets.is_floating_point() or outputs.dim() != targets.dim() + 1 or outputs.shape[-1] == 1:
        return targets.new_zeros(0, dtype=torch.bool)
    return outputs.argmax(-1) == targets
