"""Calls of a function one after the other: the first two are recorded, the others replayed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from driftless.engine.compile import WhenCalled
from driftless.engine.graph.record import Function, Recording, Unrecordable, record
from driftless.engine.graph.simplify import for_compiler, rewritten
from driftless.engine.memory import total

KEPT = 64
"""Kinds of calls that are remembered: data of ever changing shapes must not fill the memory."""


class Replay:
    """What is known of the functions of a run, by the kind of their arguments."""

    def __init__(self, longest: int | None = None) -> None:
        """`longest`: longer lists of operations are not replayed."""
        self._longest = longest
        self._known: dict[Hashable, Recording | Ready | Unrecordable] = {}
        self.compiling = False
        """Whether what becomes known now and works in place is compiled."""
        self.memory = 0
        """Bytes that the largest call needed while it was recorded."""

    def series(self, name: Hashable, f: Function, fixed: list[Tensor], in_place: bool = False) -> Series:
        """Calls of `f` with the same `fixed`. Functions of one `name` do the same with arguments of the same shapes.

        `in_place`: the caller gives `moving` away in each call.
        """
        return Series(self, (name, in_place, *map(kind, fixed)), f, fixed, in_place)

    def look_up(self, key: Hashable) -> Recording | Ready | Unrecordable | None:
        return self._known.get(key)

    def learn(self, key: Hashable, heard: Recording | Unrecordable, in_place: bool) -> None:
        before = self._known.get(key)
        if self._longest is not None and isinstance(heard, Recording) and len(heard.graph.nodes) > self._longest:
            heard = Unrecordable("it takes more operations than are worth calling from Python")
        if isinstance(before, Recording) and isinstance(heard, Recording):
            same = heard.same_as(before)
            compile = in_place and self.compiling
            self._known[key] = Ready(heard, in_place, compile) if same else Unrecordable("two calls differed")
        else:
            self._known[key] = heard
        self.memory = max(self.memory, total(heard)) if isinstance(heard, Recording) else self.memory
        if len(self._known) > KEPT:
            # What is compiled stays: whether a step runs compiled must not depend on what came before.
            gone = next((old for old, known in self._known.items() if not getattr(known, "compiled", False)), key)
            del self._known[gone]


class Ready:
    """A recording that can be run."""

    def __init__(self, recording: Recording, in_place: bool, compile: bool) -> None:
        self.compiled = compile
        program = for_compiler(recording) if compile else rewritten(recording, in_place)
        self.before = runnable(program.before, recording.constants)
        self.views = runnable(program.views, recording.constants)
        self.step = (WhenCalled if compile else runnable)(program.step, recording.constants)


class Prepared:
    """A recording with its `fixed` arguments in place."""

    def __init__(self, ready: Ready, fixed: list[Tensor]) -> None:
        self._ready = ready
        self._rest = (*fixed, *ready.before(*fixed))
        self._moving: list[Tensor] = []
        self._views: tuple[Tensor, ...] = ()

    def __call__(self, moving: list[Tensor], batch: list[Tensor]) -> list[Tensor]:
        if len(moving) != len(self._moving) or any(map(operator.is_not, moving, self._moving)):
            self._moving, self._views = list(moving), self._ready.views(*moving)
        return list(self._ready.step(*moving, *batch, *self._rest, *self._views))


class Series:
    """Calls of a function with the same `fixed`."""

    def __init__(self, replay: Replay, key: Hashable, f: Function, fixed: list[Tensor], in_place: bool) -> None:
        self._replay = replay
        self._key = key
        self._f = f
        self._fixed = fixed
        self._in_place = in_place
        self._prepared: dict[Hashable, Prepared] = {}
        self._moving: list[Tensor] = []
        self._moving_kinds: Hashable = ()

    def __call__(self, moving: list[Tensor], batch: list[Tensor]) -> list[Tensor]:
        if any(map(operator.is_not, moving, self._moving)) or len(moving) != len(self._moving):
            self._moving, self._moving_kinds = list(moving), tuple([kind(value) for value in moving])
        kinds = (self._moving_kinds, *[kind(value) for value in batch])
        with torch.no_grad():
            if kinds in self._prepared:
                return self._prepared[kinds](moving, batch)
            key = (self._key, kinds)
            known = self._replay.look_up(key)
            if isinstance(known, Ready):
                self._prepared[kinds] = Prepared(known, self._fixed)
                return self._prepared[kinds](moving, batch)
        return self._listen(key, known, moving, batch)

    def _listen(self, key: Hashable, known: Any, moving: list[Tensor], batch: list[Tensor]) -> list[Tensor]:
        if isinstance(known, Unrecordable):
            with torch.no_grad():
                results = self._f(moving, batch, self._fixed)
        else:
            results, heard = record(self._f, moving, batch, self._fixed)
            self._replay.learn(key, heard, self._in_place)
        if not self._in_place:
            return results
        new, others = results[: len(moving)], results[len(moving) :]
        return [*on_their_own(new, [*batch, *self._fixed, *others]), *others]


def kind(value: Tensor) -> Hashable:
    return (value.shape, value.stride(), value.dtype)


def runnable(graph: Graph, constants: dict[str, Tensor]) -> Callable[..., Any]:
    used = {node.target for node in graph.nodes if node.op == "get_attr"}
    return GraphModule({name: constants[name] for name in used}, graph).forward


def on_their_own(values: list[Tensor], others: list[Tensor]) -> list[Tensor]:
    """The values in memory that they share neither with each other nor with others, so that it can be written to."""
    taken = {value.untyped_storage().data_ptr() for value in others}
    result: list[Tensor] = []
    for value in values:
        if value.untyped_storage().data_ptr() in taken or 0 in value.stride():
            value = value.clone(memory_format=torch.contiguous_format)
        taken.add(value.untyped_storage().data_ptr())
        result.append(value)
    return result
