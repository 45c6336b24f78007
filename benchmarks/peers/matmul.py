"""The matrix products of the MLP's local steps and nothing else: a bound for what any simulator can reach.

For all clients of a round and each of their steps: forward, gradients of the weights, gradients of the inputs (which
the first layer does not need). Stacked over the clients, into memory that is allocated once.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from peers import turns
from rows import Row
from torch import Tensor

WIDTHS = (784, 100, 100, 10)


class Products:
    """The products of one step of all clients with a batch of a given size."""

    def __init__(self, clients: int, batch: int) -> None:
        layers = list(pairwise(WIDTHS))
        self.values = [torch.randn(clients, batch, width) for width in WIDTHS]
        self.errors = [torch.randn(clients, batch, width) for width in WIDTHS]
        self.weights = [0.01 * torch.randn(clients, entering, leaving) for entering, leaving in layers]
        self.gradients = [torch.empty_like(weight) for weight in self.weights]

    def step(self) -> None:
        for k, weight in enumerate(self.weights):
            torch.bmm(self.values[k], weight, out=self.values[k + 1])
        for k in reversed(range(len(self.weights))):
            torch.bmm(self.values[k].transpose(1, 2), self.errors[k + 1], out=self.gradients[k])
            if k > 0:
                torch.bmm(self.errors[k + 1], self.weights[k].transpose(1, 2), out=self.errors[k])


def batches(row: Row) -> list[int]:
    """The sizes of the batches of a client's round."""
    return [len(batch) for _ in range(row.epochs) for batch in torch.arange(row.examples).split(row.batch)]


@torch.no_grad()
def play(row: Row, clock: turns.Clock) -> dict[str, object]:
    if row.model != "mlp":
        raise SystemExit(f"The bare matrix products are written for the MLP, not for {row.model!r}.")
    sizes = batches(row)
    turns.check_steps(row, len(sizes))
    products: dict[int, Products] = {size: Products(row.cohort, size) for size in set(sizes)}
    clock.start()
    for _ in range(clock.rounds):
        for size in sizes:
            products[size].step()
        clock.tick()
    return {"flops": sum(flops(products[size].weights, size) for size in sizes)}


def flops(weights: list[Tensor], batch: int) -> int:
    """Three products a layer, two for the first."""
    return sum((4 if k == 0 else 6) * batch * weight.numel() for k, weight in enumerate(weights))


if __name__ == "__main__":
    turns.run("matmul", (), play)
