"""An algorithm's methods called one after the other on random vectors, as a round calls them, without the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from driftless import Algorithm, Facts, Round, Step

LAYERS = (slice(0, 4), slice(4, 5), slice(5, 8))
SIZE = 8
EXAMPLES = [3.0, 10.0, 4.0]
STEPS = [1.0, 3.0, 2.0]
COHORTS = [[0, 1], [1, 2], [0, 2], [0, 1, 2]]
"""Client 0 misses a round, client 2 comes late."""

Call = Callable[..., Any]
"""(name of the method, its arguments) -> what the method returns."""


def drive(algorithm: Algorithm, dtype: torch.dtype, call: Call | None = None) -> None:
    """Play the rounds of COHORTS; every method is called through `call`."""
    generator = torch.Generator().manual_seed(5)

    def random() -> Tensor:
        return torch.randn(SIZE, generator=generator, dtype=torch.float64).to(dtype)

    def number(value: float) -> Tensor:
        return torch.tensor(value, dtype=dtype)

    if call is None:
        call = plainly(algorithm)
    x = random()
    server = call("init_server", x, Facts(LAYERS, len(EXAMPLES)))
    clients = {i: call("init_client", x) for i in range(len(EXAMPLES))}
    for t, cohort in enumerate(COHORTS, start=1):
        msg = call("broadcast", server)
        common = Round(
            number(t), number(0.1), number(0), number(0), len(cohort), len(EXAMPLES), LAYERS,
            cohort_gradient=random() if algorithm.full_gradient == "before" else None,
        )  # fmt: skip
        uploads = []
        for i in cohort:
            gradient = random() if algorithm.full_gradient else None
            r = common._replace(steps=number(STEPS[i]), examples=number(EXAMPLES[i]), gradient=gradient)
            y, local = msg.x, call("init_local", msg, clients[i], r)
            for _ in range(int(STEPS[i])):
                step = Step(random(), y, random() if algorithm.anchor_gradient else None)
                d, local = call("direction", step, local, msg, clients[i], r)
                y = y - r.lr * d
            upload, clients[i] = call("upload", y, local, msg, clients[i], r)
            uploads.append(upload)
        r = common._replace(
            steps=number(sum(STEPS[i] for i in cohort) / len(cohort)),
            examples=number(sum(EXAMPLES[i] for i in cohort) / len(cohort)),
        )
        server = call("update", server, mean(uploads), r)
        call("inference", server)


def plainly(algorithm: Algorithm) -> Call:
    return lambda name, *arguments: getattr(algorithm, name)(*arguments)


def mean(trees: list[Any]) -> Any:
    if isinstance(trees[0], Tensor):
        return sum(trees) / len(trees)
    parts = [mean(list(part)) for part in zip(*trees, strict=True)]
    return type(trees[0])(*parts) if hasattr(trees[0], "_fields") else tuple(parts)
