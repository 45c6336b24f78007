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

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from driftless.algorithm import Scalar, Vector
from driftless.algorithms.checks import fraction, positive
from driftless.algorithms.wrapper import Wrapper


class Server(NamedTuple):
    """Server state and message: the inner algorithm's, and the clipping norm."""

    inner: Any
    rho: Scalar

    @property
    def x(self) -> Vector:
        return self.inner.x


class Upload(NamedTuple):
    inner: Any
    below: Scalar

    @property
    def delta(self) -> Vector:
        return self.inner.delta


@dataclass(frozen=True)
class AdaptiveClipping(Wrapper):
    """Clip the uploads of `inner` to an adaptive norm."""

    quantile: float = 0.8
    lr: float = 0.2
    initial: float = 1.0

    citation = "Andrew et al., NeurIPS 2021, arXiv:1905.03871; Charles et al., NeurIPS 2021"

    def __post_init__(self):
        super().__post_init__()
        fraction(self, "quantile")
        positive(self, "lr", "initial")

    @property
    def uniform(self) -> frozenset[str]:
        return self.inner.uniform | {"below"}

    def init_server(self, x, facts):
        return Server(self.inner.init_server(x, facts), x.new_tensor(self.initial))

    def broadcast(self, server: Server):
        return Server(self.inner.broadcast(server.inner), server.rho)

    def upload(self, y, local, msg: Server, client, r):
        upload, client = self.inner.upload(y, local, msg.inner, client, r)
        norm = upload.delta.norm()
        below = norm <= msg.rho
        scale = torch.where(below, 1.0, msg.rho / torch.where(below, 1.0, norm))
        return Upload(upload._replace(delta=scale * upload.delta), below.to(norm.dtype)), client

    def update(self, server: Server, mean: Upload, r):
        rho = server.rho * torch.exp(-self.lr * (mean.below - self.quantile))
        return Server(self.inner.update(server.inner, mean.inner, r), rho)

    def diagnostics(self, server: Server, mean: Upload):
        return {**super().diagnostics(server, mean), "clip_level": server.rho, "clipped": 1 - mean.below}
