"""pfl-research: its simulated backend, its FedAvg and its PyTorch adapter, in one process.

Its data sets cut the batches once and keep them, without shuffling: a little less work than the other peers do.
"""

from __future__ import annotations

import asyncio

import numpy as np
import torch
from peers import turns
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from rows import Row, build, tensors, training_loss
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class WithLoss(nn.Module):
    """pfl wants the loss and the metrics as methods of the module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(self.inner(inputs), targets)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, targets: Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(len(inputs) * self.loss(inputs, targets).item(), len(inputs))}


class Ticks(TrainingProcessCallback):
    """Ticks at the end of each round; the steps are counted in the first."""

    def __init__(self, row: Row, clock: turns.Clock) -> None:
        self.row, self.clock, self.counter = row, clock, turns.StepCounter()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if central_iteration == 0:
            server_steps = 1
            turns.check_steps(self.row, (self.counter.stop() - server_steps) / self.row.cohort)
        self.clock.tick()
        return False, Metrics()


def play(row: Row, clock: turns.Clock) -> dict[str, object]:
    inputs, targets = tensors(row)
    users = [
        PyTorchTensorDataset((own_inputs, own_targets), user_id=str(user))
        for user, (own_inputs, own_targets) in enumerate(zip(inputs, targets, strict=True))
    ]
    rng = np.random.default_rng(0)
    data = FederatedDataset(users.__getitem__, lambda: int(rng.integers(row.clients)))
    module = WithLoss(build(row))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    schedule = NNAlgorithmParams(
        central_num_iterations=clock.rounds,
        evaluation_frequency=clock.rounds + 1,  # only the first round, which belongs to the warm-up, is evaluated
        train_cohort_size=row.cohort,
        val_cohort_size=0,
    )
    local = NNTrainHyperParams(local_num_epochs=row.epochs, local_learning_rate=row.lr, local_batch_size=row.batch)
    asyncio.set_event_loop(asyncio.new_event_loop())
    clock.start()
    ticks = Ticks(row, clock)
    FederatedAveraging().run(
        schedule, SimulatedBackend(data, data), model, local, callbacks=[ticks], send_metrics_to_platform=False
    )
    return {"loss": training_loss(module.inner, inputs, targets)}


if __name__ == "__main__":
    turns.run("pfl", ("pfl",), play)
