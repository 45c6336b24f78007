"""Calls of a function one after the other: the first two are recorded, the others replayed.

Replaying is checked as it goes: the first replayed call of a kind, then the 4th, 16th, 64th, ... are also run as
written, and both results must be equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from driftless.engine.graph.record import Function, NotRecordable, Recording, copied, memory_of, record
from driftless.engine.graph.simplify import simplified
from driftless.engine.tree import Tree, leaves, map_leaves, structure, with_leaves
from driftless.errors import InputError

KINDS_KEPT = 64
"""Kinds of calls that are remembered: data of ever changing shapes must not fill the memory."""


class Replay:
    """The recordings of a run, by the kind of call: name, and shapes of the arguments."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._recordings: dict[Hashable, Recording | Program | NotRecordable] = {}

    def series(
        self, name: str, f: Function, fixed: Tree, in_place: bool = False, fixed_structure: Hashable = None
    ) -> Series:
        """Calls of `f` with the same `fixed`. Functions of one `name` do the same with arguments of the same shapes.

        `in_place`: f maps `changing` to its next value, and the caller does not use the old one any more.
        `fixed_structure` is given by a caller that starts several series with the same `fixed`.
        """
        return Series(self, (name, in_place, fixed_structure or structure(fixed)), f, fixed, in_place)

    def look_up(self, key: Hashable) -> Recording | Program | NotRecordable | None:
        return self._recordings.get(key)

    def keep(self, key: Hashable, recorded: Recording | NotRecordable, in_place: bool) -> None:
        before = self._recordings.get(key)
        if isinstance(before, Recording) and isinstance(recorded, Recording):
            same = recorded.same_as(before)
            self._recordings[key] = Program(recorded, in_place) if same else NotRecordable("two calls differed")
        else:
            self._recordings[key] = recorded
        if len(self._recordings) > KINDS_KEPT:
            del self._recordings[next(iter(self._recordings))]


class Program:
    """A recording that can be run."""

    def __init__(self, recording: Recording, in_place: bool) -> None:
        graphs = simplified(recording, in_place)
        self.before = runnable(graphs.before, recording.constants)
        self.views = runnable(graphs.views, recording.constants)
        self.step = runnable(graphs.step, recording.constants)
        self.over_changing = graphs.over_changing
        self.result = recording.result
        self.calls = 0

    def is_due(self) -> bool:
        """Whether this call is checked: the first, 4th, 16th, 64th, ..."""
        self.calls += 1
        return self.calls & (self.calls - 1) == 0 and self.calls.bit_length() % 2 == 1


class Series:
    """Calls of a function with the same `fixed`."""

    def __init__(self, replay: Replay, key: Hashable, f: Function, fixed: Tree, in_place: bool) -> None:
        self._replay = replay
        self._key = key
        self._f = f
        self._fixed = fixed
        self._in_place = in_place
        self._prepared: dict[Hashable, Prepared] = {}
        self._last: Tree = None
        self._last_structure: Hashable = None

    @torch.no_grad()
    def __call__(self, changing: Tree, new: Tree) -> Tree:
        if not self._replay.enabled:
            return self._as_written(changing, new)
        if changing is not self._last:
            self._last, self._last_structure = changing, structure(changing)
        kind = (self._last_structure, structure(new))
        prepared = self._prepared.get(kind)
        if prepared is None:
            key = (self._key, kind)
            known = self._replay.look_up(key)
            if isinstance(known, NotRecordable):
                return self._as_written(changing, new)
            if not isinstance(known, Program):
                result, recorded = record(self._f, changing, new, self._fixed)
                self._replay.keep(key, recorded, self._in_place)
                constants = () if isinstance(recorded, NotRecordable) else tuple(recorded.constants.values())
                return self._ready_for_next(result, (new, constants))
            prepared = self._prepared[kind] = Prepared(known, leaves(self._fixed))
        expected = self._written_on_copies(changing, new) if prepared.program.is_due() else None
        result = prepared(changing, new)
        if expected is not None:
            check_equal(leaves(result), leaves(expected))
        return result

    def _as_written(self, changing: Tree, new: Tree) -> Tree:
        return self._ready_for_next(self._f(changing, new, self._fixed), new)

    def _written_on_copies(self, changing: Tree, new: Tree) -> Tree:
        return self._f(map_leaves(copied, changing), map_leaves(copied, new), self._fixed)

    def _ready_for_next(self, result: Tree, others: Tree) -> Tree:
        """In place, the next call writes into the result."""
        return kept_apart(result, (others, self._fixed)) if self._in_place else result


class Prepared:
    """A program with what it needs besides `changing` and `new`."""

    def __init__(self, program: Program, fixed: list[Tensor]) -> None:
        self.program = program
        self._rest = [*fixed, *program.before(*fixed)]
        self._changing: Tree = None
        self._leaves: list[Tensor] = []
        self._views: Sequence[Tensor] = ()

    def __call__(self, changing: Tree, new: Tree) -> Tree:
        if changing is not self._changing:
            self._changing, self._leaves = changing, leaves(changing)
            self._views = self.program.views(*self._leaves)
        result = self.program.step(*self._leaves, *leaves(new), *self._rest, *self._views)
        return changing if self.program.over_changing else with_leaves(self.program.result, list(result))


def kept_apart(result: Tree, others: Tree) -> Tree:
    """The result with memory that it shares with nothing else, laid out as `keep_results_apart` does for a graph."""
    taken = {address for value in leaves(others) for address in memory_of(value)}
    separate: list[Tensor] = []
    for value in leaves(result):
        if 0 in value.stride() or not taken.isdisjoint(memory_of(value)):
            value = value.clone(memory_format=torch.contiguous_format)
        taken |= memory_of(value)
        separate.append(value)
    return with_leaves(result, separate)


def runnable(graph: Graph, constants: dict[str, Tensor]) -> Callable[..., Any]:
    used = {node.target for node in graph.nodes if node.op == "get_attr"}
    return GraphModule({name: constants[name] for name in used}, graph).forward


def check_equal(replayed: list[Tensor], written: list[Tensor]) -> None:
    if len(replayed) == len(written) and all(map(same_bits, replayed, written)):
        return
    raise InputError(
        "a replayed local step differs from the step as written: the model, the loss or the algorithm does something "
        "else from call to call (a counter, a random number of Python's or NumPy's, a changed attribute). "
        "Set engine.replay=false (in Python: engine=EngineSettings(replay=False)), so that every step runs as written."
    )


def same_bits(a: Tensor, b: Tensor) -> bool:
    """NaN in the same places counts as equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())
