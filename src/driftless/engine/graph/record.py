"""Record a function of tensors once, replay its operations afterwards.

`vmap` and `grad` are a good way of writing a local step and a slow way of running it: each call builds its transforms
anew, operation by operation. But a local step is the same list of plain tensor operations every time. So the first two
calls are listened to, and when both did the same, later calls run the list. The listener sits below vmap and grad and
hears all that a model's Python code does; a model that decides by a tensor's value, or by something that changes from
call to call, is recognised and run as it is written.

The list is a `torch.fx.Graph`; rewrite.py makes it shorter without changing a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Function = Callable[[list[Tensor], list[Tensor], list[Tensor]], list[Tensor]]
"""(moving, batch, fixed) -> new values of `moving`, then other results.

`moving` is what the next call gets back, `batch` is new in each call, `fixed` stays the same during a series of calls.
"""
_new_storage = count(-1, -1)


class Layout(NamedTuple):
    """Where a result lies: two results of equal layout are the same numbers."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    turned: tuple[bool, bool] = (False, False)
    """Conjugated, negated: torch notes this on a view and does it when the numbers are read."""

    @staticmethod
    def of(value: Tensor) -> Layout:
        storage = value.untyped_storage().data_ptr() if value.numel() else next(_new_storage)
        turned = (value.is_conj(), value.is_neg())
        return Layout(storage, int(value.storage_offset()), tuple(value.shape), value.stride(), value.dtype, turned)

    def elsewhere(self, shape: Sequence[int]) -> Layout:
        """A result of this shape in a storage of its own."""
        return self._replace(storage=next(_new_storage), offset=0, shape=tuple(shape))


def extent(look: Layout, first: int = 0) -> int:
    """Distance from the first to behind the last element, along the dimensions from `first` on."""
    if 0 in look.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(look.shape[first:], look.stride[first:], strict=True))


class Recording(NamedTuple):
    """What a function did with its arguments."""

    graph: Graph
    """Placeholders: moving, batch, fixed. Each node has the Layout of its result in `node.meta["layout"]`."""
    constants: dict[str, Tensor]
    """Tensors from elsewhere, such as a model's buffers, by the target of their get_attr node."""
    moving: int
    batch: int
    pure: bool
    """No operation wrote into a tensor."""

    def same_as(self, other: Recording) -> bool:
        """Whether two calls did the same, and so a third one would."""
        return (
            [described(node) for node in self.graph.nodes] == [described(node) for node in other.graph.nodes]
            and self.constants.keys() == other.constants.keys()
            and all(torch.equal(value, other.constants[name]) for name, value in self.constants.items())
        )


def described(node: Node) -> str:
    layout = node.meta.get("layout")
    return f"{node.name} {node.target} {node.args} {node.kwargs} {layout and layout[2:]}"


class Unrecordable(Exception):
    """The function depends on more than the shapes of its arguments."""


class Listener(TorchDispatchMode):
    """Writes every operation into a graph while it is carried out."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.graph = Graph()
        self.constants: dict[str, Tensor] = {}
        self.pure = True
        self.failure = ""
        self._nodes: dict[int, Node] = {}
        self._looks: dict[Layout, Node] = {}
        self._alive: list[Tensor] = []  # an id, or an address, is only unique among tensors that are alive
        self._storages: set[int] = set()
        for i, value in enumerate(arguments):
            self._learn(value, self.graph.placeholder(f"a{i}"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags:
            self.failure = f"{func} depends on values"
        elif any(isinstance(value, torch.Generator) for value in (*args, *(kwargs or {}).values())):
            self.failure = f"{func} has a generator of its own"
        elif func is torch.ops.aten.mkldnn_rnn_layer.default:
            self.failure = f"{func} computes something else when no gradient is asked for"
        node_args, node_kwargs = map_aggregate((args, kwargs or {}), self.node)
        result = func(*args, **(kwargs or {}))
        self.pure = self.pure and not writes(func)
        node = self.graph.call_function(func, node_args, node_kwargs)
        if isinstance(result, Tensor):
            self._learn(result, node)
        elif isinstance(result, (list, tuple)):
            for i, part in enumerate(result):
                if isinstance(part, Tensor):
                    self._learn(part, self.graph.call_function(take, (node, i)))
        return result

    def node(self, value: Any) -> Any:
        """The node of a tensor; other values stand for themselves."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._nodes:
            dense = value.layout == torch.strided
            same = self._looks.get(Layout.of(value)) if dense else None
            if same is not None:  # what backpropagation saved comes back as another tensor of the same memory
                return same
            if dense and value.numel() and value.untyped_storage().data_ptr() in self._storages:
                self.failure = "a tensor came back as another look at the same memory"
            name = f"c{len(self.constants)}"
            self.constants[name] = value
            self._learn(value, self.graph.create_node("get_attr", name))
        return self._nodes[id(value)]

    def _learn(self, value: Tensor, node: Node) -> None:
        if value.layout != torch.strided:
            self.failure = f"{value.layout} has no memory of its own"
            self._nodes[id(value)] = node
            self._alive.append(value)
            return
        node.meta["layout"] = Layout.of(value)
        self._looks[node.meta["layout"]] = node
        self._nodes[id(value)] = node
        self._alive.append(value)
        self._storages.add(value.untyped_storage().data_ptr())


class Readings(TorchFunctionMode):
    """Notices what goes past the operations: numbers that are taken out of a tensor."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.tolist, Tensor.numpy, Tensor.__array__):
            self._listener.failure = f"{func} reads numbers"
        return func(*args, **(kwargs or {}))


def apart_in_memory(values: list[Tensor]) -> list[Tensor]:
    """The same tensors, each with memory of its own: two arguments that share some today may not do so tomorrow."""
    taken: set[int] = set()
    result: list[Tensor] = []
    for value in values:
        if value.layout == torch.strided and value.numel() and value.untyped_storage().data_ptr() in taken:
            twin = value.untyped_storage().clone()
            value = torch.empty(0, dtype=value.dtype).set_(twin, value.storage_offset(), value.shape, value.stride())
        if value.layout == torch.strided:
            taken.add(value.untyped_storage().data_ptr())
        result.append(value)
    return result


def writes(function: Any) -> bool:
    """Whether an operation changes one of its operands."""
    return isinstance(function, OpOverload) and function._schema.is_mutable  # pyright: ignore[reportPrivateUsage]


def take(parts: Sequence[Tensor], i: int) -> Tensor:
    """One of several results of an operation."""
    return parts[i]


def record(
    f: Function, moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]
) -> tuple[list[Tensor], Recording | Unrecordable]:
    """The results of a call, and what it did."""
    alone = apart_in_memory([*moving, *batch, *fixed])
    first, rest = len(moving), len(moving) + len(batch)
    moving, batch, fixed = alone[:first], alone[first:rest], alone[rest:]
    listener = Listener(alone)
    with torch.no_grad(), listener, Readings(listener):
        results = f(moving, batch, fixed)
    listener.graph.output(tuple(listener.node(value) for value in results))
    if listener.failure:
        return results, Unrecordable(listener.failure)
    return results, Recording(listener.graph, listener.constants, len(moving), len(batch), listener.pure)
