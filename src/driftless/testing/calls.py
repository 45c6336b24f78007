"""An algorithm's methods called one after the other on random vectors, as a round calls them, without the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Facts, Plan, Round, Step
from driftless.engine.tree import map_leaves, named_leaves
from driftless.random import stream
from driftless.testing.trees import difference

LAYERS = (slice(0, 4), slice(4, 5), slice(5, 8))
SIZE = 8
EXAMPLES = [3.0, 10.0, 4.0]
STEPS = [1.0, 3.0, 2.0]
COHORTS = [[0, 1], [1, 2], [0, 2], [0, 1, 2]]
"""Client 0 misses a round, client 2 comes late."""
RETURNS = {
    "init_server": ("server",),
    "init_client": ("client",),
    "broadcast": ("message",),
    "init_local": ("local",),
    "direction": ("d", "local"),
    "upload": ("upload", "client"),
    "update": ("server",),
    "inference": ("model",),
    "diagnostics": ("diagnostics",),
}
"""What the methods return."""
ARGUMENTS = {name: tuple(inspect.signature(getattr(Algorithm, name)).parameters)[1:] for name in RETURNS}


class Call(NamedTuple):
    method: str
    arguments: tuple[Any, ...]
    result: Any
    written: tuple[str, ...]
    """Tensors among the arguments that the method has written into, such as `client.h`."""
    t: int
    client: int | None
    """None: a method of the server."""

    def returned(self) -> dict[str, Any]:
        """The result by its parts, such as the upload and the client's state; empty if it is not a pair but should."""
        names = RETURNS[self.method]
        if len(names) == 1:
            return {names[0]: self.result}
        is_pair = isinstance(self.result, tuple) and len(self.result) == len(names)
        return dict(zip(names, self.result, strict=True)) if is_pair else {}

    def differs_from(self, result: Any, tolerance: float = 0.0) -> str | None:
        """What is different in another result, by its name; without numbers, which differ from call to call."""
        mine, others = self.returned(), self._replace(result=result).returned()
        found = (difference(mine[name], others.get(name), tolerance, name) for name in mine)
        return next((off.partition(" by up to ")[0] for off in found if off), None)


def calls(
    algorithm: Algorithm, dtype: torch.dtype = torch.float64, order: Callable[[list[int]], Sequence[int]] = list
) -> Iterator[Call]:
    """Play the rounds of COHORTS. A call is given out before its result is used, so that a law sees it first.

    `order`: in which the clients of a cohort are trained.
    """
    algorithm = algorithm.for_run(
        Plan(len(COHORTS), len(EXAMPLES), 3, "", algorithm.weighting, None, None, "mean", 0, LAYERS)
    )

    def random(purpose: str, t: int = 0, client: int = 0) -> Tensor:
        return torch.from_numpy(stream(5, purpose, t, client).standard_normal(SIZE)).to(dtype)

    def number(value: float) -> Tensor:
        return torch.tensor(value, dtype=dtype)

    def call(method: str, *arguments: Any, t: int = 0, client: int | None = None) -> Call:
        before = {path: (leaf, leaf.clone(), leaf._version) for path, leaf in argument_tensors(method, arguments)}
        result = getattr(algorithm, method)(*arguments)
        written = tuple(
            path
            for path, (leaf, value, version) in before.items()
            if leaf._version != version or not torch.equal(leaf, value)
        )
        return Call(method, arguments, result, written, t, client)

    x = random("x")
    yield (made := call("init_server", x, Facts(LAYERS, len(EXAMPLES))))
    server, clients = made.result, dict[int, Any]()
    for i in range(len(EXAMPLES)):
        yield (made := call("init_client", x, client=i))
        clients[i] = made.result
    for t, cohort in enumerate(COHORTS, start=1):
        yield (sent := call("broadcast", server, t=t))
        msg, uploads = sent.result, dict[int, Any]()
        common = Round(
            number(t), number(0.1), number(0), number(0), len(cohort), len(EXAMPLES), LAYERS,
            cohort_gradient=random("cohort", t) if algorithm.full_gradient == "before" else None,
        )  # fmt: skip
        for i in order(cohort):
            gradient = random("full", t, i) if algorithm.full_gradient else None
            r = common._replace(steps=number(STEPS[i]), examples=number(EXAMPLES[i]), gradient=gradient)
            yield (made := call("init_local", msg, clients[i], r, t=t, client=i))
            y, local = msg.x.clone(), made.result
            for k in range(int(STEPS[i])):
                anchor = random(f"anchor {k}", t, i) if algorithm.anchor_gradient else None
                step = Step(random(f"step {k}", t, i), y, anchor)
                yield (made := call("direction", step, local, msg, clients[i], r, t=t, client=i))
                d, local = made.result
                y = y - r.lr * d
            yield (made := call("upload", y, local, msg, clients[i], r, t=t, client=i))
            uploads[i], clients[i] = made.result
        r = common._replace(
            steps=number(sum(STEPS[i] for i in cohort) / len(cohort)),
            examples=number(sum(EXAMPLES[i] for i in cohort) / len(cohort)),
        )
        received = mean([uploads[i] for i in cohort])
        yield (made := call("update", server, received, r, t=t))
        server = made.result
        yield call("inference", server, t=t)
        yield call("diagnostics", server, received, t=t)


def mean(trees: list[Any]) -> Any:
    return map_leaves(lambda *each: sum(each) / len(each), *trees)


def argument_tensors(method: str, arguments: tuple[Any, ...]) -> Iterator[tuple[str, Tensor]]:
    for name, argument in zip(ARGUMENTS[method], arguments, strict=True):
        yield from named_leaves(argument, name)
