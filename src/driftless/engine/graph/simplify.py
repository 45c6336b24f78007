"""Shorter lists of operations with the same bits as the recorded ones.

    deduplicate   no view of a tensor that is the tensor itself, nothing computed twice, nothing that is not used
    in parts      a gradient is used as it comes, parameter by parameter, not copied into one vector first
    hoist         what stays the same during a series of calls is computed once, before it
    in place      a result takes the memory of an operand that is not needed any more
    methods       x.add(y) instead of torch.ops.aten.add.Tensor(x, y), which takes twice as long to call

Every change leaves each number the result of the same operation on the same operands.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from driftless.engine.graph.record import Layout, Recording, extent, writes

aten = torch.ops.aten
IN_PLACE = {
    aten.addcmul.default: aten.addcmul_.default,
    aten.add.Tensor: aten.add_.Tensor,
    aten.sub.Tensor: aten.sub_.Tensor,
    aten.mul.Tensor: aten.mul_.Tensor,
    aten.div.Tensor: aten.div_.Tensor,
    aten.neg.default: aten.neg_.default,
    aten.sqrt.default: aten.sqrt_.default,
}
FILLED = {
    aten.ones_like.default: 1,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
}
COMMUTATIVE = {aten.add.Tensor, aten.mul.Tensor}
METHODS = {
    "add", "add_", "addcmul", "addcmul_", "argmax", "bmm", "div", "div_", "eq", "expand", "gather", "mean", "mul",
    "mul_", "neg", "neg_", "relu", "scatter_add", "sqrt", "sqrt_", "squeeze", "sub", "sub_", "sum", "transpose",
    "unsqueeze", "view",
}  # fmt: skip
SPLIT_DTYPES = (torch.float32, torch.float64)
"""An element's bits do not depend on where it lies; in bfloat16 they do."""
WORTH_SPLITTING = 2**15
"""Bytes of a part: below, calling the operations once for each part takes longer than copying the parts together."""


class Graphs(NamedTuple):
    """A recording made ready for a series of calls."""

    before: Graph
    """fixed -> what stays the same during the series."""
    views: Graph
    """changing -> views of it, which stay valid as long as `step` writes over the same tensors."""
    step: Graph
    """changing, new, fixed, the results of `before` and `views` -> result; nothing if it is written over `changing`."""
    over_changing: bool
    """Whether each part of the result is written over the same part of `changing`."""


def simplified(recording: Recording, in_place: bool) -> Graphs:
    """`in_place`: the caller gives `changing` away. Operations that write are kept in their order, as recorded."""
    graph, changing = recording.graph, recording.changing
    given = placeholders(graph)
    unchanged: set[Node] = set()
    if recording.pure:
        deduplicate(graph)
        replace_filled(graph)
        if in_place:
            split_concatenations(graph)
        unchanged = computed_from_fixed(graph, given[: changing + recording.new])
    before = hoist(graph, given[changing + recording.new :], unchanged)
    over_changing = False
    if in_place:
        if recording.pure:
            reuse_memory(graph, changing)
            join_parts(graph, changing)
        keep_results_apart(graph, changing)
        over_changing = recording.pure and is_over_changing(graph, changing)
    views = hoist(graph, given[:changing], views_of(given[:changing]) if over_changing else set())
    if over_changing:
        output_of(graph).args = ((),)
    for each in (before, views, graph):
        call_methods(each)
    return Graphs(before, views, graph, over_changing)


def operands(node: Node) -> Any:
    """The arguments; fx's own type of them says nothing."""
    return node.args


def placeholders(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def layout(node: Node) -> Layout:
    return node.meta["layout"]


def is_view(node: Node) -> bool:
    """Whether the result lies in memory of one of the operands."""
    own = node.meta.get("layout")
    return own is not None and any(layout(n).storage == own.storage for n in node.all_input_nodes if "layout" in n.meta)


def is_contiguous(of: Layout) -> bool:
    expected = 1
    for n, s in zip(reversed(of.shape), reversed(of.stride), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


# --------------------------------------------------------------------------------------------------------- deduplicate


def deduplicate(graph: Graph) -> None:
    views: dict[Layout, Node] = {}
    computed: dict[Any, Node] = {}
    moved: dict[int, int] = {}  # storage of a result that is not computed again -> storage of the first one
    for node in graph.nodes:
        if "layout" in node.meta:
            node.meta["layout"] = layout(node)._replace(storage=moved.get(layout(node).storage, layout(node).storage))
        if node.op == "placeholder":
            views.setdefault(layout(node), node)
        if node.op != "call_function":
            continue
        if "layout" in node.meta and is_view(node):
            same = views.setdefault(layout(node), node)
        else:
            if "layout" in node.meta:
                views.setdefault(layout(node), node)
            same = computed.setdefault(hashable((node.target, node.args, node.kwargs)), node)
        if same is not node:
            if "layout" in node.meta:
                moved[layout(node).storage] = layout(same).storage
            node.replace_all_uses_with(same)
    remove_unused(graph)


def hashable(value: Any) -> Any:
    """Distinguishes 1 from 1.0 and True, and -0.0 from 0.0."""
    if isinstance(value, (list, tuple)):
        return tuple(hashable(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, hashable(v)) for k, v in value.items())
    return (type(value), value, str(value) if isinstance(value, float) else "")


def remove_unused(graph: Graph) -> None:
    for node in reversed(graph.nodes):
        if node.op in ("call_function", "get_attr") and not (node.users or writes(node.target)):
            graph.erase_node(node)


# --------------------------------------------------------------------------------------------------------------- hoist


def replace_filled(graph: Graph) -> None:
    """`ones_like(a)` does not depend on the numbers of a."""
    for node in graph.nodes:
        if node.target not in FILLED or not is_contiguous(layout(node)):
            continue
        shape, value = list(layout(node).shape), FILLED[node.target]
        with graph.inserting_before(node):
            of = {"dtype": layout(node).dtype, "device": layout(node).device}
            same = graph.call_function(aten.full.default, (shape, value), {**of})
        same.meta = dict(node.meta)
        node.replace_all_uses_with(same)
    deduplicate(graph)


def computed_from_fixed(graph: Graph, varying: list[Node]) -> set[Node]:
    """The operations that depend on `fixed` and constants alone."""
    others = set(varying)
    for node in graph.nodes:
        if node.op == "output" or not others.isdisjoint(node.all_input_nodes):
            others.add(node)
    return {node for node in graph.nodes if node not in others and node.op != "placeholder"}


def hoist(graph: Graph, given: list[Node], nodes: set[Node]) -> Graph:
    """Move nodes into a graph of their own, from `given`; what the rest needs of them become further placeholders."""
    before = Graph()
    copies = {node: before.placeholder(str(node.target)) for node in given}
    for node in graph.nodes:
        if node in nodes:
            copies[node] = before.node_copy(node, lambda n: copies[n])
    needed = [
        node
        for node in copies
        if node.op == "call_function" and "layout" in node.meta and not nodes.issuperset(node.users)
    ]
    last = placeholders(graph)[-1]
    for node in needed:
        with graph.inserting_after(last):
            last = graph.placeholder(f"hoisted_{node.name}")
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last, delete_user_cb=lambda user: user not in nodes)
    before.output(tuple(copies[node] for node in needed))
    remove_unused(graph)
    return before


def views_of(given: list[Node]) -> set[Node]:
    """Views of these, and views of the views."""
    found: set[Node] = set()
    for node in given:
        views = {
            user for user in node.users if user.op == "call_function" and not writes(user.target) and is_view(user)
        }
        found |= views | views_of(list(views))
    return found


# ------------------------------------------------------------------------------------------------------------ in parts


def split_concatenations(graph: Graph) -> None:
    """op(cat(a, b), x) becomes cat(op(a, x_a), op(b, x_b)), where nothing but such operations follows the cat."""
    parts_of: dict[Node, list[Node]] = {}
    for node in list(graph.nodes):
        if node.target is aten.cat.default and is_worth_splitting(node):
            parts_of[node] = list(operands(node)[0])
        elif node.target in IN_PLACE and (known := [a for a in node.args if isinstance(a, Node) and a in parts_of]):
            joined = split(graph, node, known[0], parts_of)
            parts_of[joined] = list(operands(joined)[0])
            node.replace_all_uses_with(joined)
    deduplicate(graph)


def is_worth_splitting(cat: Node) -> bool:
    of = layout(cat)
    total = math.prod(of.shape) * of.dtype.itemsize
    if of.dtype not in SPLIT_DTYPES or total < WORTH_SPLITTING * len(operands(cat)[0]):
        return False
    followers = [cat]
    for node in followers:
        if node.op != "output" and (node.target not in IN_PLACE or layout(node)[2:] != of[2:]) and node is not cat:
            return False
        followers += [user for user in node.users if user not in followers]
    return True


def split(graph: Graph, node: Node, cat: Node, parts_of: dict[Node, list[Node]]) -> Node:
    """The concatenation of the node's operation on each part."""
    shape = layout(node).shape
    dim: int = operands(cat)[1] % len(shape) if len(cat.args) > 1 else 0  # -1 is the last one
    results: list[Node] = []
    start = 0
    with graph.inserting_before(node):
        for i, part in enumerate(parts_of[cat]):
            end = start + layout(part).shape[dim]

            def operand(value: Any, i: int = i, start: int = start, end: int = end) -> Any:
                if not isinstance(value, Node):
                    return value
                if value in parts_of:
                    return parts_of[value][i]
                from_right = dim - len(shape)
                if -from_right > len(layout(value).shape) or layout(value).shape[from_right] == 1:
                    return value
                return sliced(graph, value, from_right + len(layout(value).shape), start, end)

            result = graph.create_node("call_function", node.target, tuple(map(operand, node.args)), dict(node.kwargs))
            own_shape = (*shape[:dim], end - start, *shape[dim + 1 :])
            result.meta.update(layout=contiguous(layout(node).elsewhere(own_shape)), is_part=True)
            results.append(result)
            start = end
        joined = graph.call_function(aten.cat.default, (results, dim))
        joined.meta["layout"] = contiguous(layout(node).elsewhere(shape))
    return joined


def sliced(graph: Graph, node: Node, dim: int, start: int, end: int) -> Node:
    of = layout(node)
    view = graph.call_function(aten.slice.Tensor, (node, dim, start, end))
    shape = (*of.shape[:dim], end - start, *of.shape[dim + 1 :])
    view.meta["layout"] = of._replace(offset=of.offset + start * of.stride[dim], shape=shape)
    return view


def contiguous(of: Layout) -> Layout:
    stride = tuple(math.prod(of.shape[i + 1 :]) for i in range(len(of.shape)))
    return of._replace(stride=stride)


def join_parts(graph: Graph, changing: int) -> None:
    """Parts that were all written into one tensor of `changing` need not be put together."""
    for node in list(graph.nodes):
        if node.target is not aten.cat.default or not all(part.meta.get("is_part") for part in operands(node)[0]):
            continue
        parts, dim = operands(node)
        first = layout(parts[0])
        whole = [n for n in placeholders(graph)[:changing] if layout(n).storage == first.storage]
        if whole and tiles([layout(part) for part in parts], layout(whole[0]), dim):
            node.replace_all_uses_with(whole[0])
            graph.erase_node(node)


def tiles(parts: list[Layout], whole: Layout, dim: int) -> bool:
    """Whether the parts lie one after the other in the memory of the whole."""
    offset = whole.offset
    for part in parts:
        if (part.storage, part.offset, part.stride) != (whole.storage, offset, whole.stride):
            return False
        offset += part.shape[dim] * whole.stride[dim]
    return offset == whole.offset + whole.shape[dim] * whole.stride[dim]


# ------------------------------------------------------------------------------------------------------------ in place


def reuse_memory(graph: Graph, changing: int) -> None:
    """Write results over operands that are not read afterwards."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    sharing: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if "layout" in node.meta:
            sharing.setdefault(layout(node).storage, []).append(node)
    last_read = {
        node: max((position[user] for user in node.users if not is_view(user)), default=-1) for node in position
    }
    kept = {  # memory that is not ours
        layout(node).storage
        for i, node in enumerate(graph.nodes)
        if (node.op == "placeholder" and i >= changing) or node.op == "get_attr"
    }

    def free(node: Node, operand: Any) -> bool:
        if not isinstance(operand, Node) or layout(operand).storage in kept or node.args.count(operand) > 1:
            return False
        mine, its = layout(node), layout(operand)
        if (its.shape, its.dtype) != (mine.shape, mine.dtype) or 0 in its.stride:
            return False
        if its.stride != mine.stride and not node.meta.get("is_part"):  # may change the bits of what follows
            return False
        here = [n for n in sharing[its.storage] if overlap(layout(n), its)]
        if any(n in here and n is not operand for n in node.all_input_nodes):
            return False
        return all(last_read[n] <= position[node] for n in here)

    for node in list(graph.nodes):
        if node.target not in IN_PLACE or (node.kwargs and node.target is not aten.addcmul.default):
            continue
        target = next((a for a in candidates(node) if free(node, a)), None)
        if target is None:
            continue
        if target is not node.args[0]:
            node.args = (target, node.args[0])
        node.target = IN_PLACE[node.target]
        mine, its = layout(node), layout(target)
        for n in sharing.pop(mine.storage):  # the node and the views of it
            offset = layout(n).offset - mine.offset + its.offset
            n.meta["layout"] = its if n is node else layout(n)._replace(storage=its.storage, offset=offset)
            sharing[its.storage].append(n)


def candidates(node: Node) -> tuple[Any, ...]:
    """Operands whose memory the result could take."""
    return node.args[:2] if node.target in COMMUTATIVE and node.args[0] is not node.args[1] else node.args[:1]


def overlap(a: Layout, b: Layout) -> bool:
    """Whether two views of one storage have memory in common; True when in doubt."""
    row = a.stride[0] if a.stride and a.stride[:1] == b.stride[:1] else 0
    if row and all(of.offset % row + extent(of, first=1) <= row for of in (a, b)):  # columns of one table
        first, second = a.offset % row, b.offset % row
        if first + extent(a, first=1) <= second or second + extent(b, first=1) <= first:
            return False
    return a.offset < b.offset + extent(b) and b.offset < a.offset + extent(a)


def keep_results_apart(graph: Graph, changing: int) -> None:
    """Results get memory of their own: the next call writes into it."""
    output = output_of(graph)
    results: list[Node] = list(operands(output)[0])
    constants = [n for n in graph.nodes if n.op == "get_attr"]
    taken = {layout(n).storage for n in (*placeholders(graph)[changing:], *constants)}
    for i, result in enumerate(results):
        if layout(result).storage in taken or 0 in layout(result).stride:
            with graph.inserting_before(output):
                contiguous: dict[str, Any] = {"memory_format": torch.contiguous_format}
                results[i] = graph.call_function(aten.clone.default, (result,), contiguous)
            results[i].meta["layout"] = layout(result).elsewhere(layout(result).shape)
        taken.add(layout(results[i]).storage)
    output.args = (tuple(results),)


def output_of(graph: Graph) -> Node:
    return next(iter(reversed(graph.nodes)))


def is_over_changing(graph: Graph, changing: int) -> bool:
    results = list(operands(output_of(graph))[0])
    return [layout(node) for node in results] == [layout(node) for node in placeholders(graph)[:changing]]


# ------------------------------------------------------------------------------------------------------------- methods


def call_methods(graph: Graph) -> None:
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and (name := node.target.overloadpacket.__name__) in METHODS:
            node.op, node.target = "call_method", name
