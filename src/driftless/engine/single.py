"""One client after the other, by ordinary PyTorch: what every other way of training must agree with."""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.algorithm import Client, Message, Round, Step, Vector
from driftless.engine.flat import FlatModel
from driftless.engine.local import (
    Batch,
    Seen,
    Trained,
    initial_velocity,
    number_correct,
    regularised,
    with_momentum,
)
from driftless.engine.losses import Loss
from driftless.engine.minibatches import Block, Workload, client_batches, client_chunks
from driftless.engine.tree import Tree, map_leaves, stack
from driftless.random import torch_stream


class SingleTrainer:
    def __init__(self, work: Workload) -> None:
        self.work = work

    def gradients(self, block: Block, x: Vector) -> Tensor:
        """Full-batch gradients at x [clients, P]."""
        return torch.stack([self._full_gradient(client, block.t, x) for client in block.clients.tolist()])

    def train(self, block: Block, msg: Message, states: Client, r: Round) -> Trained:
        """All local steps of the block's clients; of `r`, the fields of one client are stacked."""
        if self.work.algorithm.full_gradient == "after":
            r = r._replace(gradient=self.gradients(block, msg.x))
        trained: list[Trained] = []
        for i, client in enumerate(block.clients.tolist()):
            own = map_leaves(lambda leaf, i=i: leaf[i], states)
            with torch_stream(self.work.seed, "train", block.t, client):
                trained.append(self._train(client, block.t, msg, own, round_of_client(r, i)))
        return stack(trained)

    @torch.no_grad()
    def _train(self, client: int, t: int, msg: Message, state: Client, r: Round) -> Trained:
        algorithm, training, model, loss = self.work.algorithm, self.work.training, self.work.model, self.work.loss
        plan, batches = client_batches(self.work, client, t)
        losses, correct = msg.x.new_zeros(()), msg.x.new_zeros(())

        model.resident.load(msg.x)
        y = model.resident.vector
        local, velocity = algorithm.init_local(msg, state, r), initial_velocity(msg.x, training)
        for batch in batches:
            again = batch.copy() if algorithm.anchor_gradient else batch
            g, seen = gradient(model, loss, batch)  # may write over the batch
            g, g_x = regularised(g, y, training), None
            if algorithm.anchor_gradient:
                g, y_now = g.clone(), y.clone()
                y.copy_(msg.x)
                g_x = regularised(gradient(model, loss, again)[0], msg.x, training)
                y.copy_(y_now)
            d, local = algorithm.direction(Step(g, y, g_x), local, msg, state, r)
            local = kept_apart(local, y, model.resident.gradient)
            d, velocity = with_momentum(d, velocity, training)
            y.addcmul_(d, r.lr, value=-1)
            losses, correct = losses + seen.loss, correct + seen.correct
        upload, state = algorithm.upload(y, local, msg, state, r)
        return kept_apart(Trained(y, upload, state, losses / len(plan.count), correct / int(plan.count.sum())), y)

    @torch.no_grad()
    def _full_gradient(self, client: int, t: int, x: Vector) -> Vector:
        plan, chunks = client_chunks(self.work, client, t)
        self.work.model.resident.load(x)
        total, size = torch.zeros_like(x), int(plan.count.sum())
        with torch_stream(self.work.seed, "full-gradient", t, client):
            for count, chunk in zip(plan.count.tolist(), chunks, strict=True):
                total += gradient(self.work.model, self.work.loss, chunk)[0] * x.new_tensor(count / size)
        return regularised(total, x, self.work.training)


def gradient(model: FlatModel, loss: Loss, batch: Batch) -> tuple[Vector, Seen]:
    """The gradient of the mean loss at the resident vector; the next call writes over it."""
    module = model.resident
    module.gradient.zero_()
    with torch.enable_grad(), model.computing():
        outputs = module.outputs(batch.inputs, batch.key)
        correct = number_correct(loss, outputs.detach(), batch)  # before the loss, which may write over both
        value = loss(outputs, batch.targets)
    value.backward()
    return module.gradient, Seen(value.detach().to(module.gradient), correct.to(module.gradient))


def kept_apart(tree: Tree, *overwritten: Tensor) -> Tree:
    """The tree, copied where it shares memory with vectors that the next step writes over."""
    memory = {value.untyped_storage().data_ptr() for value in overwritten}
    return map_leaves(lambda leaf: leaf.clone() if leaf.untyped_storage().data_ptr() in memory else leaf, tree)


def round_of_client(r: Round, i: int) -> Round:
    """What client i of a block sees."""
    return r._replace(steps=r.steps[i], examples=r.examples[i], gradient=None if r.gradient is None else r.gradient[i])
