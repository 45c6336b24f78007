"""A recorded step compiled to machine code: torch's inductor fuses what rewrite.py can only shorten.

Compiling takes about ten seconds and a C++ compiler. The result is close to the replayed one but not equal to the bit,
so whether a step runs compiled must not depend on history: only the steps of the first round's first block are
compiled, before the run, and they are compiled again when the run is resumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule


class CannotCompile(Exception):
    """In one line: why not."""


def compiled(graph: Graph, constants: dict[str, Tensor], examples: list[Tensor]) -> Callable[..., Any]:
    """A function of the graph's placeholders. Raises CannotCompile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of inductor's own making
        import torch._inductor as inductor  # takes a second, so only where it is needed
        from torch._inductor.exc import InductorError

    used = {node.target for node in graph.nodes if node.op == "get_attr"}
    module = GraphModule({name: constants[name] for name in used}, graph)
    try:
        with torch.no_grad():
            return inductor.compile(module, examples)  # pyright: ignore
    except (InductorError, RuntimeError, NotImplementedError, OSError) as error:
        if "InvalidCxxCompiler" in str(error):
            raise CannotCompile("no C++ compiler was found; install g++ or clang, or name one in CXX") from None
        raise CannotCompile(f"torch's compiler failed: {str(error).strip().splitlines()[0][:120]}") from error


class WhenCalled:
    """A graph that is compiled for the arguments of its first call."""

    def __init__(self, graph: Graph, constants: dict[str, Tensor]) -> None:
        self._graph, self._constants = graph, constants
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Tensor) -> Any:
        if self._function is None:
            self._function = compiled(self._graph, self._constants, list(arguments))
        return self._function(*arguments)
