"""Adaptive clipping: client updates are clipped to a norm that follows a quantile of their norms.

Andrew, Thakkar, McMahan, Ramaswamy. Differentially Private Learning with Adaptive Clipping. NeurIPS 2021,
arXiv:1905.03871; without noise as Algorithm 2 of Charles et al. 2021 (large-cohort paper, arXiv:2106.07820).

    client:  b = 1 if norm(delta) <= rho else 0;  delta <- delta * min(1, rho/norm(delta))
    server:  the inner algorithm's update with the mean clipped delta;  rho <- rho*exp(-lr*(mean(b) - quantile))

A wrapper around any algorithm: its message also carries rho, its upload also carries b. The client's own state comes
from the unclipped y, since clipping protects what leaves the client.

Vectors: those of the inner algorithm, and one number down and up.  Deviations: no noise is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch

from driftless.algorithm import Algorithm, Scalar
from driftless.algorithms.checks import fraction, positive
from driftless.errors import InputError


class Clipped(NamedTuple):
    """Server state and message: the inner algorithm's, and the clipping norm."""

    inner: Any
    rho: Scalar

    @property
    def x(self):
        return self.inner.x


class ClippedUpload(NamedTuple):
    inner: Any
    below: Scalar

    @property
    def delta(self):
        return self.inner.delta


@dataclass(frozen=True)
class AdaptiveClipping(Algorithm):
    """Clip the uploads of `inner` to an adaptive norm."""

    inner: Algorithm
    quantile: float = 0.8
    lr: float = 0.2
    initial: float = 1.0

    citation: ClassVar[str] = "Andrew et al., NeurIPS 2021, arXiv:1905.03871; Charles et al., NeurIPS 2021"

    def __post_init__(self):
        if not isinstance(self.inner, Algorithm):
            raise InputError(f"inner of AdaptiveClipping must be an algorithm such as FedAvg(), got {self.inner!r}.")
        fraction(self, "quantile")
        positive(self, "lr", "initial")

    # What the inner algorithm asks of the engine, the wrapper asks too.
    weighting = property(lambda self: self.inner.weighting)  # pyright: ignore
    anchor_gradient = property(lambda self: self.inner.anchor_gradient)  # pyright: ignore
    full_gradient = property(lambda self: self.inner.full_gradient)  # pyright: ignore
    local_must_be = property(lambda self: self.inner.local_must_be)  # pyright: ignore
    uniform = property(lambda self: self.inner.uniform | {"below"})  # pyright: ignore
    server_lr = property(lambda self: getattr(self.inner, "server_lr", None))

    def init_server(self, x, facts):
        return Clipped(self.inner.init_server(x, facts), x.new_tensor(self.initial))

    def init_client(self, x):
        return self.inner.init_client(x)

    def broadcast(self, server):
        return Clipped(self.inner.broadcast(server.inner), server.rho)

    def init_local(self, msg, client, r):
        return self.inner.init_local(msg.inner, client, r)

    def direction(self, step, local, msg, client, r):
        return self.inner.direction(step, local, msg.inner, client, r)

    def upload(self, y, local, msg, client, r):
        upload, client = self.inner.upload(y, local, msg.inner, client, r)
        norm = upload.delta.norm()
        below = norm <= msg.rho
        scale = torch.where(below, 1.0, msg.rho / torch.where(below, 1.0, norm))
        return ClippedUpload(upload._replace(delta=scale * upload.delta), below.to(norm.dtype)), client

    def update(self, server, mean, r):
        rho = server.rho * torch.exp(-self.lr * (mean.below - self.quantile))
        return Clipped(self.inner.update(server.inner, mean.inner, r), rho)

    def diagnostics(self, server, mean):
        inner = self.inner.diagnostics(server.inner, mean.inner)
        return {**inner, "clip_level": server.rho, "clipped": 1 - mean.below}

    def inference(self, server):
        return self.inner.inference(server.inner)

    def with_server_lr(self, server_lr):
        return replace(self, inner=self.inner.with_server_lr(server_lr))
