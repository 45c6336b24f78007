"""Record the operations of a function of tensors while it runs.

The recorder sits below vmap and autograd (a dispatch mode of torch), so it sees the plain tensor operations that a step
comes down to, whatever Python code led to them. They are written into a `torch.fx.Graph`. A function that decides by a
tensor's value, draws random numbers, or reads numbers out of a tensor is refused: its operations may differ in the next
call.
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

from driftless.engine.operations import DispatchMode
from driftless.engine.tree import Tree, leaves, map_leaves, structure, with_leaves

Function = Callable[[Tree, Tree, Tree], Tree]
"""(changing, new, fixed) -> result, all trees.

`changing` is what the next call gets back, `new` differs in each call, `fixed` stays the same during a series of calls.
"""
_new_storage = count(-1, -1)


class Layout(NamedTuple):
    """Where a result lies: two results of equal layout are the same numbers."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    flags: tuple[bool, bool] = (False, False)
    """Conjugated, negated: torch sets these on a view and computes them when the numbers are read."""

    @staticmethod
    def of(value: Tensor) -> Layout:
        storage = value.untyped_storage().data_ptr() if value.numel() else next(_new_storage)
        flags = (value.is_conj(), value.is_neg())
        offset, shape = int(value.storage_offset()), tuple(value.shape)
        return Layout(storage, offset, shape, value.stride(), value.dtype, value.device, flags)

    def elsewhere(self, shape: Sequence[int]) -> Layout:
        """A result of this shape in a storage of its own."""
        return self._replace(storage=next(_new_storage), offset=0, shape=tuple(shape))


def extent(layout: Layout, first: int = 0) -> int:
    """Distance from the first to behind the last element, along the dimensions from `first` on."""
    if 0 in layout.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(layout.shape[first:], layout.stride[first:], strict=True))


class Recording(NamedTuple):
    """The operations of one call."""

    graph: Graph
    """Placeholders: the leaves of changing, new, fixed. Each node has its Layout in `node.meta["layout"]`."""
    constants: dict[str, Tensor]
    """Tensors from elsewhere, such as a model's buffers, by the target of their get_attr node."""
    changing: int
    """Number of leaves of `changing`, the first placeholders."""
    new: int
    result: Tree
    """The structure of the result; its leaves have no numbers."""
    pure: bool
    """No operation wrote into a tensor."""

    def same_as(self, other: Recording) -> bool:
        """Whether two calls consisted of the same operations."""
        return (
            [described(node) for node in self.graph.nodes] == [described(node) for node in other.graph.nodes]
            and structure(self.result) == structure(other.result)
            and self.constants.keys() == other.constants.keys()
            and all(torch.equal(value, other.constants[name]) for name, value in self.constants.items())
        )


def described(node: Node) -> str:
    layout = node.meta.get("layout")
    return f"{node.name} {node.target} {node.args} {node.kwargs} {layout and layout[2:]}"


class NotRecordable(Exception):
    """Why a function cannot be replayed."""


class Recorder(DispatchMode):
    """Writes every operation into a graph while it is carried out."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.graph = Graph()
        self.constants: dict[str, Tensor] = {}
        self.pure = True
        self.failure = ""
        self._nodes: dict[int, Node] = {}
        self._by_layout: dict[Layout, Node] = {}
        self._alive: list[Tensor] = []  # an id, or an address, is only unique among tensors that are alive
        self._storages: set[int] = set()
        for i, value in enumerate(arguments):
            self._register(value, self.graph.placeholder(f"a{i}"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags:
            self.failure = f"{func} depends on values"
        elif torch.Tag.nondeterministic_seeded in func.tags:
            self.failure = f"{func} draws random numbers"
        elif func is torch.ops.aten.mkldnn_rnn_layer.default:
            self.failure = f"{func} computes something else when no gradient is asked for"
        node_args, node_kwargs = map_aggregate((args, kwargs or {}), self.node)
        result = func(*args, **(kwargs or {}))
        self.pure = self.pure and not writes(func)
        node = self.graph.call_function(func, node_args, node_kwargs)
        if isinstance(result, Tensor):
            self._register(result, node)
        elif isinstance(result, (list, tuple)):
            for i, part in enumerate(result):
                if isinstance(part, Tensor):
                    self._register(part, self.graph.call_function(take, (node, i)))
        return result

    def node(self, value: Any) -> Any:
        """The node of a tensor; other values stand for themselves."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._nodes:
            dense = value.layout == torch.strided
            same = self._by_layout.get(Layout.of(value)) if dense else None
            if same is not None:  # what backpropagation saved comes back as another tensor of the same memory
                return same
            if not self._storages.isdisjoint(memory_of(value)):
                self.failure = "a tensor came back as another view of the same memory"
            name = f"c{len(self.constants)}"
            self.constants[name] = value
            self._register(value, self.graph.create_node("get_attr", name))
        return self._nodes[id(value)]

    def _register(self, value: Tensor, node: Node) -> None:
        if value.layout != torch.strided:
            self.failure = f"{value.layout} has no memory of its own"
            self._nodes[id(value)] = node
            self._alive.append(value)
            return
        node.meta["layout"] = Layout.of(value)
        self._by_layout[node.meta["layout"]] = node
        self._nodes[id(value)] = node
        self._alive.append(value)
        self._storages |= memory_of(value)


READS_NUMBERS = {
    Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.apply_, Tensor.map_, Tensor.map2_, Tensor.data_ptr,
    Tensor.__dlpack__,
}  # fmt: skip


class NumbersRead(TorchFunctionMode):
    """Notices what goes past the operations: numbers that are taken out of a tensor, or put into it, from Python."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READS_NUMBERS:
            self._recorder.failure = f"{func} reads or writes numbers from Python"
        return func(*args, **(kwargs or {}))


def without_shared_memory(values: list[Tensor]) -> list[Tensor]:
    """The same tensors, each with memory of its own: two arguments that share memory now may not in the next call."""
    taken: set[int] = set()
    result: list[Tensor] = []
    for value in values:
        if not taken.isdisjoint(memory_of(value)):
            value = copied(value)
        taken |= memory_of(value)
        result.append(value)
    return result


def memory_of(value: Tensor) -> set[int]:
    """The address of the tensor's memory, if it has any."""
    return {value.untyped_storage().data_ptr()} if value.layout == torch.strided and value.numel() else set()


def copied(value: Tensor) -> Tensor:
    """A copy with the same strides: the last bits of a sum depend on them."""
    copy = value.clone()
    if value.layout != torch.strided or copy.stride() == value.stride():
        return copy
    memory = value.untyped_storage().clone()
    return torch.empty(0, dtype=value.dtype, device=value.device).set_(
        memory, value.storage_offset(), value.shape, value.stride()
    )


def writes(function: Any) -> bool:
    """Whether an operation changes one of its operands."""
    return isinstance(function, OpOverload) and function._schema.is_mutable  # pyright: ignore[reportPrivateUsage]


def take(parts: Sequence[Tensor], i: int) -> Tensor:
    """One of several results of an operation."""
    return parts[i]


def record(f: Function, changing: Tree, new: Tree, fixed: Tree) -> tuple[Tree, Recording | NotRecordable]:
    """The result of a call, and its operations."""
    arguments = (changing, new, fixed)
    separate = without_shared_memory(leaves(arguments))
    recorder = Recorder(separate)
    with torch.no_grad(), recorder, NumbersRead(recorder):
        result = f(*with_leaves(arguments, separate))
    recorder.graph.output(tuple(recorder.node(value) for value in leaves(result)))
    if recorder.failure:
        return result, NotRecordable(recorder.failure)
    shape = map_leaves(lambda leaf: leaf.new_empty(0), result)
    numbers = len(leaves(changing)), len(leaves(new))
    return result, Recording(recorder.graph, recorder.constants, *numbers, shape, recorder.pure)


def total_bytes(recording: Recording) -> int:
    """Of all arguments and results: while a call is recorded they are all in memory. Replayed, it needs less."""
    size: dict[int, int] = {}
    for node in recording.graph.nodes:
        layout: Layout | None = node.meta.get("layout")
        if layout is not None:
            own = (layout.offset + extent(layout)) * layout.dtype.itemsize
            size[layout.storage] = max(size.get(layout.storage, 0), own)
    return sum(size.values())
