"""The costs of several algorithms side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from rich.table import Table
from torch import nn

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.config.user_code import make_algorithm
from driftless.cost.counting import Example
from driftless.cost.measure import BATCH_SIZE, STEPS, Amounts, Cost, measure
from driftless.data import load
from driftless.data.inputs import cast_floats, take
from driftless.errors import InputError
from driftless.models import build


def cost_table(
    algorithms: Sequence[str] | Mapping[str, Algorithm] = (),
    *,
    model: str = "mlp",
    data: str = "digits",
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    examples: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[Cost]:
    """The costs of several algorithms on one model, per client and round.

    Args:
        algorithms: Names, each with its defaults, or a dict of algorithms by the names of their rows. None named: all.
        model: A name of `driftless list models`. Default "mlp".
        data: The data set for whose inputs the model is built. Default "digits".
        steps: K, local steps. Default 10.
        batch_size: B, examples of a minibatch. Default 32.
        examples: n, examples of a client; None: as many as its steps use.
        dtype: The type of all numbers. Default torch.float32.

    Returns:
        The cost of each algorithm.

    Examples:
        >>> from driftless.cost import cost_table
        >>> [(cost.algorithm, cost.vectors.up) for cost in cost_table(["fedavg", "scaffold"])]
        [('fedavg', 1), ('scaffold', 2)]
    """
    chosen = algorithms if isinstance(algorithms, Mapping) else {name: make_algorithm(name, {}) for name in algorithms}
    if not chosen:
        chosen = {name: cls() for name, cls in ALGORITHMS.items()}
    federation = load(data)
    example = cast_floats(take(federation.inputs, slice(1)), dtype), federation.targets[:1]
    module = build(model, federation.input_shape, federation.classes, target_shape=federation.target_shape)
    work = {"steps": steps, "batch_size": batch_size, "examples": examples, "dtype": dtype}
    return [measured(name, algorithm, module, example, work) for name, algorithm in chosen.items()]


def measured(name: str, algorithm: Algorithm, module: nn.Module, example: Example, work: dict[str, Any]) -> Cost:
    try:
        return measure(algorithm, module, example, name=name, **work)
    except (RuntimeError, NotImplementedError) as error:
        raise InputError(
            f"algorithm '{name}' cannot be run on tensors without values: {error}. Its methods must not look at values "
            "(.item(), .numpy(), if), nor make tensors on a device of their own: use x.new_zeros(...)."
        ) from error


def as_rows(costs: Iterable[Cost]) -> list[dict[str, Any]]:
    """The costs as plain numbers for JSON: exact, in vectors, bytes and FLOPs.

    Args:
        costs: What `cost_table` returns.

    Returns:
        A dict for each algorithm.

    Examples:
        >>> from driftless.cost import as_rows, cost_table
        >>> as_rows(cost_table(["fedavg"], model="logistic"))[0]["bytes_up"]
        2600
    """
    return [
        {
            "algorithm": cost.algorithm,
            "parameters": cost.parameters,
            "steps": cost.steps,
            "batch_size": cost.batch_size,
            "examples": cost.examples,
            **{f"vectors_{key}": value for key, value in cost.vectors._asdict().items()},
            **{f"bytes_{key}": value for key, value in cost.bytes._asdict().items()},
            "gradients_per_step": cost.gradients,
            "gradient_flops": cost.gradient_flops,
            "full_gradient_flops": cost.full_gradient_flops,
            "vector_flops_per_step": cost.step.total(),
            "vector_flops_per_round": cost.round.total(),
            "server_flops": cost.server.total(),
            "model_flops": cost.model_flops,
            "vector_flops": cost.vector_flops,
            "client_flops": cost.client_flops,
        }
        for cost in costs
    ]


def rich_table(costs: Sequence[Cost]) -> Table:
    """The costs as a table for a terminal, as `driftless cost` prints it.

    Args:
        costs: What `cost_table` returns.

    Returns:
        A table of the package rich.

    Examples:
        >>> from driftless.cost import cost_table, rich_table
        >>> rich_table(cost_table(["fedavg", "scaffold"], model="logistic")).row_count
        2
    """
    table = Table(box=None, padding=(0, 1))
    table.add_column("algorithm", no_wrap=True)
    for title in ("down", "up", "kept by client", "by server", "step", "round", "server", "model", "vectors", "all"):
        table.add_column(title, justify="right")
    for cost in costs:
        units = [f"{part.total() / cost.parameters:.4g}" for part in (cost.step, cost.round, cost.server)]
        flops = [short(value) for value in (cost.model_flops, cost.vector_flops, cost.client_flops)]
        table.add_row(cost.algorithm, *amount_cells(cost.vectors, cost.bytes), *units, *flops)
    table.caption, table.caption_justify = caption(costs), "left"
    return table


def amount_cells(vectors: Amounts, size: Amounts) -> list[str]:
    """`2 (139 kB)`."""
    return [f"{count} ({short(number)}B)" if number else "0" for count, number in zip(vectors, size, strict=True)]


def caption(costs: Sequence[Cost]) -> str:
    if not costs:
        return ""
    usual = max(costs, key=lambda cost: cost.steps)
    what = f"P = {usual.parameters} parameters, K = {usual.steps} steps, B = {usual.batch_size}, n = {usual.examples}"
    others = [c for c in costs if (c.steps, c.batch_size) != (usual.steps, usual.batch_size)]
    exceptions = "".join(f"; {c.algorithm}: K = {c.steps}, B = {c.batch_size}" for c in others)
    return (
        f"per client and round, {what}{exceptions}\n"
        "down, up, kept: vectors of P numbers (bytes); step, round, server: vector FLOPs / P of a local step, of a "
        "client once a round, of the server\n"
        "model, vectors, all: FLOPs of a client in a round, by its gradients, by vector operations, together"
    )


def short(value: float | None) -> str:
    """Three digits and a decimal prefix."""
    if value is None:
        return "-"
    for prefix in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:#.3g}".rstrip(".") + f" {prefix}" if prefix else f"{value:.3g} "
        value /= 1000
    return f"{value:.3g} P"
