"""Adaptive clipping around any algorithm. Andrew et al., NeurIPS 2021, arXiv:1905.03871."""

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
    """Clips the client updates of any algorithm to a norm, rho, that follows a quantile of their norms.

    Single clients with huge updates can ruin a round, the more likely the larger the cohort. The message of the inner
    algorithm also carries rho, its upload also b, which says whether the update was short enough. The client's own
    state comes from the unclipped y, since clipping protects what leaves the client; update stands for the inner
    algorithm's step of the server.

    Paper: Andrew, Thakkar, McMahan, Ramaswamy. Differentially Private Learning with Adaptive Clipping. NeurIPS 2021,
    arXiv:1905.03871; without noise as Algorithm 2 of the large-cohort paper (Charles et al. 2021, arXiv:2106.07820).

    Equations:
        start: rho = initial
        client: b = norm(delta) <= rho
        client: delta <- delta*min(1, rho/norm(delta))
        server: x <- update(x, mean(delta))
        server: rho <- rho*exp(-lr*(mean(b) - quantile))

    Hyper-parameters:
        inner: the algorithm whose updates are clipped; any algorithm, such as FedAvg().
        quantile: the share of updates that should not be clipped; 0 to 1. The large-cohort paper used 0.8. Smaller
            clips more, and all rounds get shorter.
        lr: how fast rho follows the quantile; greater than 0. Not the learning rate of the clients. The large-cohort
            paper used 0.2: with quantile = 0.8 a round raises rho by at most 17 % and lowers it by at most 4 %. Too
            large, it swings; too small, it comes late.
        initial: rho in the first round; greater than 0. The large-cohort paper used 1. Near the usual norm of an update
            the first rounds are neither clipped away nor unprotected.

    Vectors: those of the inner algorithm, and one number down and up.

    Deviations: no noise is added.
    """

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
