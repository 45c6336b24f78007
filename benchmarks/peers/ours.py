"""driftless through its public interface, as a user calls it; timed between the callbacks of two rounds."""

from __future__ import annotations

import inspect

import torch
from peers import turns
from rows import Row, build, tensors, training_loss
from torch import Tensor, nn

import driftless


def federation(row: Row, inputs: Tensor, targets: Tensor) -> driftless.Federation:
    return driftless.Federation.from_clients(list(zip(inputs, targets, strict=True)), classes=row.classes)


def local_training(row: Row) -> driftless.LocalTraining:
    return driftless.LocalTraining(lr=row.lr, epochs=row.epochs, batch_size=row.batch)


def known(**options: object) -> dict[str, object]:
    """The options that this version of `simulate` has; one that would change something must be among them."""
    allowed = inspect.signature(driftless.simulate).parameters
    without_effect = {"compile": ("off", "auto"), "workers": (1,)}
    for name, value in options.items():
        if name not in allowed and value not in without_effect[name]:
            raise SystemExit(f"this driftless has no {name}=")
    return {name: value for name, value in options.items() if name in allowed}


class Odometer(nn.Module):
    """One parameter, which is also the output: with its mean as the loss, each SGD step moves it by -lr."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.position + 0 * inputs.flatten(1)[:, :1]


def count_steps(row: Row, data: driftless.Federation, options: dict[str, object]) -> int:
    """Local steps a client in one round, read off an odometer: a count that holds for any engine."""
    result = driftless.simulate(
        "fedavg", data, Odometer(), rounds=1, cohort=row.cohort, local=local_training(row), evaluate_every=0,
        loss=lambda outputs, labels: outputs.mean(), **options,
    )  # fmt: skip
    return round(-result.x.item() / row.lr)


def play(row: Row, clock: turns.Clock, algorithm: str, engine: str, compile: str, workers: int, count: bool):
    inputs, targets = tensors(row)
    data = federation(row, inputs, targets)
    options = known(compile=compile, workers=workers)
    if count:
        turns.check_steps(row, count_steps(row, data, options))
    clock.start()
    result = driftless.simulate(
        algorithm, data, build(row), rounds=clock.rounds, cohort=row.cohort, local=local_training(row), engine=engine,
        evaluate_every=0, on_round=lambda _: clock.tick(), **options,
    )  # fmt: skip
    return {"loss": training_loss(result.module(), inputs, targets), "engine": result.engine, "options": options}


if __name__ == "__main__":
    arguments = turns.parser()
    arguments.add_argument("--algorithm", default="fedavg")
    arguments.add_argument("--engine", default="auto")
    arguments.add_argument("--compile", default="auto")
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--count", action="store_true", help="first count the local steps of one round")
    turns.run("driftless", ("driftless",), play, arguments)
