"""FedLab's standalone pipeline: its FedAvg server and its serial trainer, in one process.

FedLab takes any iterable as a client's data loader; here it gets index lookups in memory, not torch's DataLoader, which
would collate example by example and cost several times as much.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from peers.absent import stand_in

stand_in("torchvision")

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402
from peers import turns  # noqa: E402
from rows import Row, build, tensors, training_loss  # noqa: E402
from torch import Tensor  # noqa: E402


class Loader:
    """The batches of one client, in a new order each time."""

    def __init__(self, inputs: Tensor, targets: Tensor, batch: int) -> None:
        self.inputs, self.targets, self.batch = inputs, targets, batch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self.inputs)).split(self.batch):
            yield self.inputs[rows], self.targets[rows]


class Data:
    """All clients' examples."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def get_dataloader(self, client: int, batch: int) -> Loader:
        return Loader(self.inputs[client], self.targets[client], batch)


class Pipeline(StandalonePipeline):
    """Ticks where FedLab evaluates; the steps are counted in the first round."""

    def __init__(self, handler, trainer, row: Row, clock: turns.Clock) -> None:
        super().__init__(handler, trainer)
        self.row, self.clock, self.counter = row, clock, turns.StepCounter()

    def evaluate(self) -> None:
        if not self.clock.seconds:
            turns.check_steps(self.row, self.counter.stop() / self.row.cohort)
        self.clock.tick()


def play(row: Row, clock: turns.Clock) -> dict[str, object]:
    inputs, targets = tensors(row)
    trainer = SGDSerialClientTrainer(build(row), row.clients)
    trainer.setup_dataset(Data(inputs, targets))
    trainer.setup_optim(row.epochs, row.batch, row.lr)
    handler = SyncServerHandler(build(row), clock.rounds, row.cohort / row.clients)
    clock.start()
    Pipeline(handler, trainer, row, clock).main()
    return {"loss": training_loss(handler.model, inputs, targets)}


if __name__ == "__main__":
    turns.run("fedlab", ("fedlab",), play)
