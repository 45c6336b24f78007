"""Shorter lists of operations with the same bits as the recorded ones.

    simplify    no view of a thing that is the thing itself, nothing computed twice, nothing that nobody needs
    split       the gradient's parts go into the update one by one: their concatenation is never built
    hoist       what stays the same during a series of calls is computed once, before it
    in place    a result takes the memory of an operand that is not needed any more; then the views of what is only
                ever changed in place are made once, too

Every change leaves each number the result of the same operation on the same operands. Only operations whose result is
exactly defined (rounded once) are split, since the others may differ in the last bit between whole and part; for the
update y - lr * d, which may be rounded once or twice, this is tried out.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from driftless.engine.graph.record import Layout, Recording, extent, take, writes

aten = torch.ops.aten
EXACT = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.sqrt.default,
    aten.where.self, aten.abs.default, aten.maximum.default, aten.minimum.default,
}  # fmt: skip
UPDATE = aten.addcmul.default
"""y - lr * d in one pass."""
IN_PLACE = {
    UPDATE: aten.addcmul_.default,
    aten.add.Tensor: aten.add_.Tensor,
    aten.sub.Tensor: aten.sub_.Tensor,
    aten.mul.Tensor: aten.mul_.Tensor,
    aten.div.Tensor: aten.div_.Tensor,
    aten.neg.default: aten.neg_.default,
    aten.sqrt.default: aten.sqrt_.default,
}
CONSTANT = {
    aten.ones_like.default: 1,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
}
COMMUTATIVE = {aten.add.Tensor, aten.mul.Tensor}
CONTIGUOUS: dict[str, Any] = {"memory_format": torch.contiguous_format}
LARGE_PART = 2**15
"""Elements from which a part of a concatenation is worth operations of its own."""


class Program(NamedTuple):
    """A recording made ready for a series of calls."""

    before: Graph
    """fixed -> what stays the same during the series."""
    views: Graph
    """moving -> views of it, which stay the same as long as `moving` is the same memory."""
    step: Graph
    """moving, batch, fixed, the results of `before` and of `views` -> results."""


def rewritten(recording: Recording, in_place: bool) -> Program:
    """`in_place`: the caller gives `moving` away. Operations that write are kept in their order, as recorded."""
    graph, moving = recording.graph, recording.moving
    if not recording.pure:
        if in_place:
            keep_results_apart(graph, moving)
        return as_recorded(recording)
    simplify(graph)
    without_examples(graph)
    joined = split(graph) if in_place else []
    program = hoisted(recording)
    if not in_place:
        return program
    reuse_memory(graph, moving)
    join(graph, joined)
    remove_unused(graph)
    keep_results_apart(graph, moving)
    given = placeholders(graph)[:moving]
    return program._replace(views=taken_out(graph, given, views_of(given, results_of(graph))))


def for_compiler(recording: Recording) -> Program:
    """What a compiler should get, which fuses and reuses by itself: constants are taken out, `moving` is filled."""
    if not recording.pure:
        write_back(recording.graph, recording.moving, [])
        return as_recorded(recording)
    simplify(recording.graph)
    without_examples(recording.graph)
    joined = split(recording.graph)
    program = hoisted(recording)
    write_back(recording.graph, recording.moving, joined)
    return program


def as_recorded(recording: Recording) -> Program:
    given = placeholders(recording.graph)
    fixed, moving = given[recording.moving + recording.batch :], given[: recording.moving]
    return Program(taken_out(recording.graph, fixed, set()), taken_out(recording.graph, moving, set()), recording.graph)


def hoisted(recording: Recording) -> Program:
    graph, changing = recording.graph, recording.moving + recording.batch
    given = placeholders(graph)
    before = taken_out(graph, given[changing:], stays_the_same(graph, given[:changing]))
    return Program(before, taken_out(graph, given[: recording.moving], set()), graph)


def write_back(graph: Graph, moving: int, joined: list[Node]) -> None:
    """Results go into the memory of the `moving` arguments, those in parts part by part."""
    output = next(iter(reversed(graph.nodes)))
    results: list[Node] = list(output.args[0])
    given = placeholders(graph)[:moving]
    memory = {layout(node).storage for node in given}
    with graph.inserting_before(output):
        for i, result in enumerate(results):
            in_its_place = i < moving and result is given[i]
            if layout(result).storage in memory and not in_its_place:  # before it is written to
                results[i] = graph.call_function(aten.clone.default, (result,))
        for i, whole in enumerate(given):
            if results[i] in joined:
                write_parts(graph, whole, results[i].args[0])  # pyright: ignore[reportArgumentType]
            elif results[i] is not whole:
                graph.call_function(aten.copy_.default, (whole, results[i]))
    output.args = ((*given, *results[moving:]),)
    remove_unused(graph)


def write_parts(graph: Graph, whole: Node, parts: list[Node]) -> None:
    start, dim = 0, len(layout(whole).shape) - 1
    for part in parts:
        stop = start + layout(part).shape[-1]
        piece = graph.call_function(aten.slice.Tensor, (whole, dim, start, stop))
        graph.call_function(aten.copy_.default, (piece, part))
        start = stop


def placeholders(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def results_of(graph: Graph) -> list[Node]:
    return list(next(iter(reversed(graph.nodes))).args[0])


def layout(node: Node) -> Layout:
    return node.meta["layout"]


def is_view(node: Node) -> bool:
    """Whether the node only looks at memory of one of its operands."""
    own = node.meta.get("layout")
    return own is not None and any(layout(n).storage == own.storage for n in node.all_input_nodes if "layout" in n.meta)


def is_random(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def is_contiguous(look: Layout) -> bool:
    expected = 1
    for n, s in zip(reversed(look.shape), reversed(look.stride), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


# ------------------------------------------------------------------------------------------------------------ simplify


def simplify(graph: Graph) -> None:
    looks: dict[Layout, Node] = {}
    done: dict[Any, Node] = {}
    moved: dict[int, int] = {}  # where views of what is not computed again find it
    for node in graph.nodes:
        if "layout" in node.meta:
            node.meta["layout"] = layout(node)._replace(storage=moved.get(layout(node).storage, layout(node).storage))
        if node.op == "placeholder":
            looks.setdefault(layout(node), node)
        if node.op != "call_function" or is_random(node):
            continue
        if "layout" in node.meta and is_view(node):
            same = looks.setdefault(layout(node), node)
        else:
            if "layout" in node.meta:
                looks.setdefault(layout(node), node)
            same = done.setdefault(frozen((node.target, node.args, node.kwargs)), node)
        if same is not node:
            if "layout" in node.meta:
                moved[layout(node).storage] = layout(same).storage
            node.replace_all_uses_with(same)
    remove_unused(graph)


def frozen(value: Any) -> Any:
    """A hashable stand-in that distinguishes 1 from 1.0 and True."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, frozen(v)) for k, v in value.items())
    return (type(value), value, str(value) if isinstance(value, float) else "")  # -0.0 == 0.0


def remove_unused(graph: Graph) -> None:
    """An unused draw of random numbers stays: it moves the generator."""
    for node in reversed(graph.nodes):
        needed = node.users or is_random(node) or writes(node.target)
        if node.op in ("call_function", "get_attr") and not needed:
            graph.erase_node(node)


# --------------------------------------------------------------------------------------------------------------- split


class Part(NamedTuple):
    node: Node
    start: int
    stop: int


def split(graph: Graph) -> list[Node]:
    """Carry out what is done to a concatenation on its parts; returns the places where parts are joined after all."""
    parts: dict[Node, list[Part]] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.cat.default:
            found = parts_of(graph, node)
            if len(found) > 1 and all(can_split(user, layout(node).shape) for user in node.users):
                parts[node] = found
        elif can_split(node, layout(node).shape if "layout" in node.meta else ()):
            whole = next((n for n in node.all_input_nodes if n in parts), None)
            ends = {tuple(part[1:] for part in parts[n]) for n in node.all_input_nodes if n in parts}
            if whole is not None and layout(whole).shape[-1] == layout(node).shape[-1] and len(ends) == 1:
                parts[node] = [part_of(graph, node, parts, at) for at in parts[whole]]
    joined: list[Node] = []
    for node, of_node in parts.items():
        outside = [user for user in node.users if user not in parts]
        if outside:
            with graph.inserting_before(first_of(graph, outside)):
                whole = graph.call_function(aten.cat.default, ([part.node for part in of_node], -1))
            whole.meta["layout"] = layout(node)
            for user in outside:
                user.replace_input_with(node, whole)
            joined.append(whole)
    for node in reversed(list(parts)):
        graph.erase_node(node)
    return joined


def first_of(graph: Graph, nodes: list[Node]) -> Node:
    return next(node for node in graph.nodes if node in nodes)


def can_split(node: Node, shape: tuple[int, ...]) -> bool:
    return (
        node.op == "call_function"
        and ((node.target in EXACT and not node.kwargs) or (node.target is UPDATE and update_is_uniform()))
        and layout(node).shape[-1:] == shape[-1:] != ()
    )


@cache
def update_is_uniform() -> bool:
    """Whether y - lr * d is rounded alike at every place of a vector: once or twice is up to the machine code."""
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        y, d = torch.randn(2, 260, dtype=dtype, generator=generator)
        lr = torch.tensor(0.1, dtype=dtype)
        whole = torch.addcmul(y, d, lr, value=-1)
        for cut in range(1, 70):
            parts = [torch.addcmul(a, b, lr, value=-1) for a, b in ((y[:cut], d[:cut]), (y[cut:], d[cut:]))]
            if not torch.equal(torch.cat(parts), whole):
                return False
    return True


def parts_of(graph: Graph, cat: Node) -> list[Part]:
    """The large parts of a concatenation along the last dimension, and what lies between them in one piece each."""
    last = len(layout(cat).shape) - 1
    dim = cat.args[1] if len(cat.args) > 1 else 0
    pieces: list[Node] = list(cat.args[0])  # pyright: ignore
    alike = all(len(layout(n).shape) == last + 1 and layout(n).dtype == layout(cat).dtype for n in pieces)
    if dim not in (last, -1) or not alike:
        return []
    found: list[Part] = []
    small: list[Node] = []
    position = 0

    def close() -> None:
        if small:
            start = position - sum(layout(n).shape[last] for n in small)
            node = small[0]
            if len(small) > 1:
                with graph.inserting_before(cat):
                    node = graph.call_function(aten.cat.default, (list(small), dim))
                shape = (*layout(cat).shape[:-1], position - start)
                node.meta["layout"] = layout(cat).elsewhere(shape)
            found.append(Part(node, start, position))
            small.clear()

    for node in pieces:
        length = layout(node).shape[last]
        if length == 0:
            continue
        if torch.Size(layout(node).shape).numel() >= LARGE_PART:
            close()
            found.append(Part(node, position, position + length))
        else:
            small.append(node)
        position += length
    close()
    return found


def part_of(graph: Graph, node: Node, parts: dict[Node, list[Part]], at: Part) -> Part:
    """The operation on one part of its operands."""
    length = layout(node).shape[-1]

    def operand(n: Node) -> Node:
        if n in parts:
            return next(part.node for part in parts[n] if part.start == at.start)
        own = layout(n)
        if own.shape[-1:] != (length,):
            return n
        dim = len(own.shape) - 1
        there = (n, dim, at.start, at.stop)
        found = next((u for u in n.users if u.target is aten.slice.Tensor and u.args == there), None)
        if found is not None and found.meta.get("placed", False):
            return found
        with graph.inserting_before(node):
            piece = graph.call_function(aten.slice.Tensor, there)
        piece.meta["layout"] = own._replace(
            offset=own.offset + at.start * own.stride[-1], shape=(*own.shape[:-1], at.stop - at.start)
        )
        piece.meta["placed"] = True
        return piece

    with graph.inserting_before(node):
        result = graph.call_function(node.target, map_arg(node.args, operand), node.kwargs)  # pyright: ignore
    result.meta["layout"] = layout(node).elsewhere((*layout(node).shape[:-1], at.stop - at.start))
    result.meta["part"] = True
    return Part(result, at.start, at.stop)


# --------------------------------------------------------------------------------------------------------------- hoist


def without_examples(graph: Graph) -> None:
    """`ones_like(a)` needs no a."""
    for node in graph.nodes:
        if node.target not in CONSTANT or not is_contiguous(layout(node)):
            continue
        shape, value = list(layout(node).shape), CONSTANT[node.target]
        with graph.inserting_before(node):
            same = graph.call_function(aten.full.default, (shape, value), {"dtype": layout(node).dtype})
        same.meta = dict(node.meta)
        node.replace_all_uses_with(same)
    simplify(graph)


def stays_the_same(graph: Graph, changing: list[Node]) -> set[Node]:
    """The operations that depend on `fixed` and constants alone."""
    others = set(changing)
    for node in graph.nodes:
        if node.op == "output" or is_random(node) or not others.isdisjoint(node.all_input_nodes):
            others.add(node)
    return {node for node in graph.nodes if node not in others and node.op != "placeholder"}


def views_of(moving: list[Node], results: list[Node]) -> set[Node]:
    """Views of those moving arguments that come back as they are, changed in place."""
    found = {given for given, result in zip(moving, results, strict=False) if given is result}
    queue = list(found)
    while queue:
        new = [user for user in queue.pop().users if is_view(user) and user.target is not take and user not in found]
        new = [user for user in new if user.target not in IN_PLACE.values()]
        found.update(new)
        queue += new
    return found - set(moving)


def taken_out(graph: Graph, given: list[Node], nodes: set[Node]) -> Graph:
    """Move nodes into a graph of their own, which starts from `given`; its results become further placeholders."""
    apart = Graph()
    copies = {node: apart.placeholder(node.target) for node in given}  # pyright: ignore
    for node in graph.nodes:
        if node in nodes:
            copies[node] = apart.node_copy(node, lambda n: copies[n])
    handed_over = [
        node
        for node in copies
        if node.op == "call_function" and "layout" in node.meta and not nodes.issuperset(node.users)
    ]
    last = placeholders(graph)[-1]
    for node in handed_over:
        with graph.inserting_after(last):
            last = graph.placeholder(f"given_{node.name}")
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last, delete_user_cb=lambda user: user not in nodes)
    apart.output(tuple(copies[node] for node in handed_over))
    remove_unused(graph)
    return apart


# ------------------------------------------------------------------------------------------------------------ in place


def reuse_memory(graph: Graph, moving: int) -> None:
    """Write results over operands that nobody reads afterwards."""
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
        if (node.op == "placeholder" and i >= moving) or node.op == "get_attr"
    }

    def free(node: Node, operand: Any) -> bool:
        if not isinstance(operand, Node) or layout(operand).storage in kept or node.args.count(operand) > 1:
            return False
        mine, its = layout(node), layout(operand)
        alike = its.shape == mine.shape and its.dtype == mine.dtype and 0 not in its.stride
        if not alike or not (its.stride == mine.stride or node.meta.get("part")):
            return False
        here = [n for n in sharing[its.storage] if overlap(layout(n), its)]
        if any(n in here and n is not operand for n in node.all_input_nodes):
            return False
        return all(last_read[n] <= position[node] for n in here)

    for node in list(graph.nodes):
        if node.target not in IN_PLACE or (node.kwargs and node.target is not UPDATE):
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


def candidates(node: Node) -> list[Any]:
    """Operands whose memory the result could take; of two, first the one that is a piece of a whole vector."""
    if node.target not in COMMUTATIVE or node.args[0] is node.args[1]:
        return [node.args[0]]
    return sorted(node.args[:2], key=lambda a: not (isinstance(a, Node) and a.meta.get("placed", False)))


def overlap(a: Layout, b: Layout) -> bool:
    """Whether two looks at one storage have memory in common; True when in doubt."""
    if apart((a.offset, a.offset + extent(a)), (b.offset, b.offset + extent(b))):
        return False
    if len(a.shape) < 2 or len(b.shape) < 2 or a.stride[0] != b.stride[0]:
        return True
    width = a.stride[0]  # both have a row a client; do they have columns in common?
    columns = [(look.offset % width, look.offset % width + extent(look, 1)) for look in (a, b)] if width else []
    return not (columns and all(stop <= width for _, stop in columns) and apart(*columns))


def apart(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[1] <= b[0] or b[1] <= a[0]


def join(graph: Graph, joined: list[Node]) -> None:
    """Parts that have been written into the pieces of one vector need no concatenation: the vector is there."""
    for node in joined:
        whole, *others = {whole_under(piece) for piece in node.args[0]}  # pyright: ignore
        last = all(user.op == "output" for user in node.users)  # so that nothing writes into the vector afterwards
        if last and whole is not None and not others and layout(whole).shape == layout(node).shape:
            node.replace_all_uses_with(whole)


def whole_under(node: Any) -> Node | None:
    """The vector that the node was written into, piece by piece."""
    while isinstance(node, Node) and node.target in IN_PLACE.values():
        node = node.args[0]
    if isinstance(node, Node) and node.meta.get("placed", False):
        return node.args[0]  # pyright: ignore
    return None


def keep_results_apart(graph: Graph, moving: int) -> None:
    """Moving results get memory of their own: the next call writes into it."""
    output = next(iter(reversed(graph.nodes)))
    results: list[Node] = list(output.args[0])
    given = placeholders(graph)
    constants = [n for n in graph.nodes if n.op == "get_attr"]
    taken = {layout(n).storage for n in (*given[moving:], *constants, *results[moving:])}
    for i, result in enumerate(results[:moving]):
        if layout(result).storage in taken or 0 in layout(result).stride:
            with graph.inserting_before(output):
                results[i] = graph.call_function(aten.clone.default, (result,), CONTIGUOUS)
            results[i].meta["layout"] = layout(result).elsewhere(layout(result).shape)
        taken.add(layout(results[i]).storage)
    output.args = (tuple(results),)
