"""driftless through its public interface, as a user calls it; timed between the callbacks of two rounds."""

from __future__ import annotations

import torch
from peers import turns
from rows import Row, build, tensors, training_loss
from torch import Tensor, nn

import driftless


def federation(row: Row, inputs: Tensor, targets: Tensor) -> driftless.Federation:
    return driftless.Federation.from_clients(list(zip(inputs, targets, strict=True)), classes=row.classes)


def local_training(row: Row) -> driftless.LocalTraining:
    return driftless.LocalTraining(lr=row.lr, epochs=row.epochs, batch_size=row.batch)


class Odometer(nn.Module):
    """One parameter, which is also the output: with its mean as the loss, each SGD step moves it by -lr."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.position + 0 * inputs.flatten(1)[:, :1]


def count_steps(row: Row, data: driftless.Federation, engine: driftless.EngineSettings) -> int:
    """Local steps a client in one round, read off an odometer: a count that holds for any engine."""
    result = driftless.simulate(
        "fedavg", data, Odometer(), rounds=1, cohort=row.cohort, local=local_training(row), evaluate_every=0,
        loss=lambda outputs, labels: outputs.mean(), engine=engine,
    )  # fmt: skip
    return round(-result.x.item() / row.lr)


def play(row: Row, clock: turns.Clock, algorithm: str, engine: str, workers: str, count: bool):
    inputs, targets = tensors(row)
    data = federation(row, inputs, targets)
    settings = driftless.EngineSettings(engine, workers=workers if workers == "auto" else int(workers))
    if count:
        turns.check_steps(row, count_steps(row, data, settings))
    clock.start()
    result = driftless.simulate(
        algorithm, data, build(row), rounds=clock.rounds, cohort=row.cohort, local=local_training(row), engine=settings,
        evaluate_every=0, on_round=lambda _: clock.tick(),
    )  # fmt: skip
    return {"loss": training_loss(result.module(), inputs, targets), "engine": result.engine}


if __name__ == "__main__":
    arguments = turns.parser()
    arguments.add_argument("--algorithm", default="fedavg")
    arguments.add_argument("--engine", default="auto")
    arguments.add_argument("--workers", default="auto")
    arguments.add_argument("--count", action="store_true", help="first count the local steps of one round")
    turns.run("driftless", ("driftless",), play, arguments)
