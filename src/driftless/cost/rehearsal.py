"""One round of one client on meta tensors, stage by stage, as the engine runs it."""

from __future__ import annotations

import torch

from driftless.algorithm import Algorithm, Client, Facts, Message, Round, Server, Upload, Vector
from driftless.engine.batches import chunks
from driftless.engine.local import Batch, LocalStep, LocalTraining, Progress, Seen, regularised

COHORT, CLIENTS = 2, 4
"""No cost of a client depends on them."""


class Rehearsal:
    """What each stage needs, prepared; a stage can be repeated, because algorithms are pure.

    The engine's own local step is run, with a gradient that costs nothing and is counted.
    """

    def __init__(self, algorithm: Algorithm, x: Vector, layers: tuple[slice, ...], examples: int = 1) -> None:
        self.algorithm, self.x, self.examples = algorithm, x, examples
        self.gradients = 0
        """Gradients that the stages run so far have asked for."""
        self._step = LocalStep(algorithm, self._gradient, LocalTraining())
        self.server: Server = algorithm.init_server(x, Facts(layers, CLIENTS))
        self.msg: Message = self.broadcast()
        self.client: Client = algorithm.init_client(self.msg.x)
        self.y = torch.empty_like(x)

        number = x.new_ones(())
        self.r = Round(number, number, number, number, COHORT, CLIENTS, layers)
        if algorithm.full_gradient == "before":
            self.r = self.r._replace(cohort_gradient=torch.empty_like(x))
        self.own_r = self.r._replace(gradient=torch.empty_like(x) if algorithm.full_gradient else None)
        self.local = algorithm.init_local(self.msg, self.client, self.own_r)

    def broadcast(self) -> Message:
        return self.algorithm.broadcast(self.server)

    def full_gradient(self) -> None:
        """Put the client's full gradient together from the gradients of chunks, if the algorithm asks for it."""
        if self.algorithm.full_gradient:
            total = torch.zeros_like(self.x)
            for size in chunks(self.examples).count.tolist():
                total = self._step.accumulate(total, self.x, self._batch(size), self.x.new_empty(()))
            regularised(total, self.x, self._step.training)

    def step(self) -> Vector:
        """One local step, after its gradient: the direction and y <- y - lr * d."""
        number = self.x.new_empty(())
        now = Progress(self.y, self.local, number, number)
        return self._step(now, self._batch(1), self.msg, self.client, self.own_r).y

    def upload(self) -> tuple[Upload, Client]:
        """What a client does once a round besides its steps: prepare the local state, and the upload."""
        local = self.algorithm.init_local(self.msg, self.client, self.own_r)
        return self.algorithm.upload(self.y, local, self.msg, self.client, self.own_r)

    def update(self, mean: Upload) -> Server:
        return self.algorithm.update(self.server, mean, self.r)

    def _gradient(self, y: Vector, batch: Batch) -> tuple[Vector, Seen]:
        self.gradients += 1
        return torch.empty_like(y), Seen(y.new_empty(()), y.new_empty(()))

    def _batch(self, size: int) -> Batch:
        nothing = self.x.new_empty(size, 0)
        return Batch(nothing, nothing)
