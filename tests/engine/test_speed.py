"""Speed as a ratio inside one process, with a margin so generous that only a real slow-down fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

import driftless

CLIENTS, EXAMPLES, BATCH, LR = 10, 60, 10, 0.01


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(CLIENTS, EXAMPLES, 784, generator=generator)
    return inputs, torch.randint(0, 10, (CLIENTS, EXAMPLES), generator=generator)


def plain_rounds(rounds: int, inputs: torch.Tensor, targets: torch.Tensor, module: nn.Module) -> None:
    """FedAvg as one writes it without a library: a model, an optimiser, a loop over clients and minibatches."""
    x = [p.detach().clone() for p in module.parameters()]
    for _ in range(rounds):
        total = [torch.zeros_like(p) for p in x]
        for client in range(CLIENTS):
            with torch.no_grad():
                for p, value in zip(module.parameters(), x, strict=True):
                    p.copy_(value)
            optimiser = torch.optim.SGD(module.parameters(), lr=LR)
            for rows in torch.randperm(EXAMPLES).split(BATCH):
                optimiser.zero_grad()
                F.cross_entropy(module(inputs[client][rows]), targets[client][rows]).backward()
                optimiser.step()
            for sum_, p in zip(total, module.parameters(), strict=True):
                sum_ += p.detach() / CLIENTS
        x = total


def fastest_round(run: Callable[[], list[float]]) -> float:
    return min(min(run()) for _ in range(3))


def test_blocks_stay_well_ahead_of_a_plain_loop():
    """Measured at 3x and more on an idle machine with one thread; in processor time, so that others do not count."""
    inputs, targets = data()
    federation = driftless.Federation.from_clients(list(zip(inputs, targets, strict=True)))
    module = nn.Linear(784, 10)
    local = driftless.LocalTraining(lr=LR, epochs=1, batch_size=BATCH)

    def ours() -> list[float]:
        ends = list[float]()
        driftless.simulate(
            "fedavg", federation, module, rounds=20, cohort=CLIENTS, local=local, engine="block",
            evaluate_every=0, on_round=lambda _: ends.append(time.process_time()),
        )  # fmt: skip
        return [after - before for before, after in pairwise(ends[5:])]

    def plain() -> list[float]:
        times = list[float]()
        for _ in range(5):
            start = time.process_time()
            plain_rounds(1, inputs, targets, module)
            times.append(time.process_time() - start)
        return times

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratio = fastest_round(plain) / fastest_round(ours)
    finally:
        torch.set_num_threads(before)
    assert ratio > 1.5, f"a plain loop takes only {ratio:.2f} times as long as a block"
