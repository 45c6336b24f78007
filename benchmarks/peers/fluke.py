"""fluke: its FedAvg (CentralizedFL) with clients and server made by hand from its own classes, in one process."""

from __future__ import annotations

import torchmetrics  # noqa: F401  (fluke uses it; it must look for torchvision before the stand-in is there)
from peers.absent import stand_in

parts = ("datasets", "datasets.utils", "models", "transforms")
stand_in("torchvision", *(f"torchvision.{part}" for part in parts), "clearml", "wandb", "datasets")

from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from fluke.utils import FederationObserver  # noqa: E402
from peers import turns  # noqa: E402
from rows import Row, build, tensors, training_loss  # noqa: E402
from torch import nn  # noqa: E402


class Ticks(FederationObserver):
    """Ticks at the end of each round; the steps are counted in the first."""

    def __init__(self, row: Row, clock: turns.Clock) -> None:
        self.row, self.clock, self.counter = row, clock, turns.StepCounter()

    def end_round(self, round: int) -> None:
        if not self.clock.seconds:
            turns.check_steps(self.row, self.counter.stop() / self.row.cohort)
        self.clock.tick()


def play(row: Row, clock: turns.Clock) -> dict[str, object]:
    inputs, targets = tensors(row)
    environment = FlukeENV()
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    environment.set_save_options(path=None, save_every=0)
    clients = [
        Client(
            index=client,
            train_set=FastDataLoader(
                inputs[client], targets[client], num_labels=row.classes, batch_size=row.batch, shuffle=True
            ),
            test_set=None,
            optimizer_cfg=OptimizerConfigurator(DDict(name="SGD", lr=row.lr)),
            loss_fn=nn.CrossEntropyLoss(),
            local_epochs=row.epochs,
            persistency=False,  # FedAvg's clients keep nothing
        )
        for client in range(row.clients)
    ]
    server = Server(build(row), None, clients, weighted=True)
    algorithm = CentralizedFL(row.clients, None, None, clients=clients, server=server)
    algorithm.set_callbacks(Ticks(row, clock))
    clock.start()
    algorithm.run(clock.rounds, row.cohort / row.clients)
    return {"loss": training_loss(server.model, inputs, targets)}


if __name__ == "__main__":
    turns.run("fluke", ("fluke-fl",), play)
