"""A plain PyTorch loop: one client after the other in one model, all data in memory, no data loaders.

What a careful user writes for one machine: parameters are copied and added in place, batches are index lookups.
It computes no metrics; driftless does. `--tuned` adds what an expert might think of for small models: the fused
optimizer and a single thread.
"""

from __future__ import annotations

import numpy as np
import torch
from peers import turns
from rows import Row, build, tensors, training_loss
from torch.nn.functional import cross_entropy


def play(row: Row, clock: turns.Clock, tuned: bool) -> dict[str, object]:
    if tuned:
        torch.set_num_threads(1)
    inputs, targets = tensors(row)
    model = build(row)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=row.lr, fused=tuned or None)
    parameters = [parameter.detach() for parameter in model.parameters()]  # the same memory, without gradients
    x = [parameter.clone() for parameter in parameters]
    mean = [torch.zeros_like(parameter) for parameter in parameters]
    rng = np.random.default_rng(0)
    counter = turns.StepCounter()
    clock.start()
    for t in range(clock.rounds):
        for total in mean:
            total.zero_()
        for client in rng.choice(row.clients, row.cohort, replace=False):
            torch._foreach_copy_(parameters, x)
            own_inputs, own_targets = inputs[client], targets[client]
            for _ in range(row.epochs):
                for batch in torch.randperm(row.examples).split(row.batch):
                    optimizer.zero_grad()
                    cross_entropy(model(own_inputs[batch]), own_targets[batch]).backward()
                    optimizer.step()
            torch._foreach_add_(mean, parameters, alpha=1 / row.cohort)
        x, mean = mean, x
        if t == 0:
            turns.check_steps(row, counter.stop() / row.cohort)
        clock.tick()
    torch._foreach_copy_(parameters, x)
    return {"loss": training_loss(model, inputs, targets)}


if __name__ == "__main__":
    arguments = turns.parser()
    arguments.add_argument("--tuned", action="store_true")
    turns.run("plain", (), play, arguments)
