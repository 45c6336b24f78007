"""Counts FLOPs, operation by operation, as they pass through torch's dispatcher.

One FLOP is one addition, multiplication, division, root or other function of one number; a vector operation on P
numbers is P FLOPs. Free are copies, views, constants, comparisons, selections (`where`, `clamp`) and changes of sign,
and every operation on a single number (a 0-d tensor). A norm is 2 FLOPs a number; summing n vectors is n - 1 vector
operations. Of the model, as in `torch.utils.flop_counter`, the matrix products and convolutions are counted, a
multiply-add as 2 FLOPs; activations, biases and the loss are not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from driftless.data.inputs import Inputs, map_inputs
from driftless.engine.flat import FlatModel
from driftless.engine.local import Batch, loss_gradient
from driftless.engine.losses import Loss
from driftless.engine.operations import DispatchMode, FlopCount

Operations = Counter[str]
"""FLOPs by kind: "add", "multiply", "divide", "square", "root", "product" (of matrices) and "other"."""

Example = tuple[Inputs, Tensor]
"""Inputs and targets [n, ...]; only their shapes after the first dimension and their dtypes matter."""

KINDS: dict[str, tuple[str, ...]] = {
    "add": ("add",),
    "sub": ("add",),
    "rsub": ("add",),
    "mul": ("multiply",),
    "div": ("divide",),
    "reciprocal": ("divide",),
    "sqrt": ("root",),
    "rsqrt": ("root", "divide"),
    "addcmul": ("multiply", "add"),  # its third factor is a sign wherever we use it
    "addcdiv": ("multiply", "divide", "add"),
    "lerp": ("add", "multiply", "add"),
}
"""What an elementwise operation does to each number; one that is not listed is one "other"."""

REDUCTIONS: dict[str, tuple[str, ...]] = {
    "sum": ("add",),
    "mean": ("add",),
    "linalg_vector_norm": ("square", "add"),
    "dot": ("multiply", "add"),
}

FREE = {
    "neg", "sign", "abs", "clone", "where", "masked_fill", "maximum", "minimum", "clamp", "clamp_min", "clamp_max",
    "relu", "round", "nan_to_num",
}  # fmt: skip
"""Elementwise without arithmetic."""


class Counting(DispatchMode):
    """Counts the FLOPs of the operations that run inside its `with` block.

    Attributes:
        operations: FLOPs by kind: "add", "multiply", "divide", "square", "root", "product" (of matrices) and "other".

    Examples:
        >>> import torch
        >>> from driftless.cost import Counting
        >>> x = torch.ones(100)
        >>> with Counting() as counted:
        ...     y = 2 * x + 1
        >>> counted.operations["multiply"], counted.operations["add"]
        (100, 100)
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: Operations = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.record(func, args, kwargs or {}, out)
        return out

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Called after each operation; a paper's own convention is another `record`."""
        self.operations.update(operations_of(func, args, kwargs, out))


def operations_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Operations:
    """The FLOPs of one call of an ATen operation."""
    packet = func.overloadpacket
    name = packet.__name__.rstrip("_")  # add_ is add
    if packet in flop_registry:
        return Counter(product=flop_registry[packet](*args, **kwargs, out_val=out))
    if name in REDUCTIONS:
        numbers = args[0].numel() - (out.numel() if out.dim() else 0) if args[0].dim() else 0
        return Counter(dict.fromkeys(REDUCTIONS[name], numbers))
    if torch.Tag.pointwise not in func.tags or name in FREE or not (out.is_floating_point() and out.dim()):
        return Counter()
    kinds = ("square",) if name == "pow" and args[1] == 2 else KINDS.get(name, ("other",))
    if kwargs.get("alpha", 1) != 1:
        kinds = (*kinds, "multiply")
    return Counter({kind: kinds.count(kind) * out.numel() for kind in kinds})


def gradient_flops(model: FlatModel, loss: Loss, example: Example, batch_size: int) -> int:
    """FLOPs of the gradient of one batch, forward and backward, as the engine computes it."""
    gradient = loss_gradient(model, loss)
    with FlopCount() as flops:
        gradient(model.initial, meta_batch(model, example, batch_size))
    return flops.total


def meta_batch(model: FlatModel, example: Example, size: int) -> Batch:
    def without_values(part: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(size, *part.shape[1:], dtype=dtype or part.dtype, device="meta")

    def as_model(part: Tensor) -> Tensor:
        return without_values(part, model.initial.dtype if part.is_floating_point() else None)

    key = torch.empty((), dtype=torch.long, device="meta") if model.uses_dropout else None
    return Batch(map_inputs(as_model, example[0]), without_values(example[1]), key=key)
