"""FedAvg and FedSGD. McMahan et al., AISTATS 2017, arXiv:1602.05629."""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta, Model
from driftless.algorithms.checks import positive

MCMAHAN = "McMahan et al., AISTATS 2017, arXiv:1602.05629"


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The clients train, and the server moves to the mean of their models.

    x is the server's model, y a client's, which starts at x and takes K local steps y <- y - lr*d; g is the gradient of
    a minibatch at y, and delta = y - x after the last step. The mean is over the clients of the round, by their
    examples unless the run says otherwise. Where the clients' data differ, their models drift apart during the local
    steps, and the mean is biased.

    Paper: McMahan, Moore, Ramage, Hampson, Aguera y Arcas. Communication-Efficient Learning of Deep Networks from
    Decentralized Data. AISTATS 2017, arXiv:1602.05629. With a server learning rate as in Reddi et al. 2021,
    arXiv:2003.00295 (Algorithm 1 of the large-cohort paper, Charles et al. 2021, arXiv:2106.07820).

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: x <- x - server_lr*D

    Hyper-parameters:
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1, where the
            server's model is the mean; the large-cohort paper searched 0.001, 0.01, 0.1, 1 and 10 and chose 1 on all
            four tasks. Too large, the loss swings or grows from round to round; too small, it falls slowly.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

    server_lr: float = 1.0

    name = "fedavg"
    citation = MCMAHAN

    def __post_init__(self):
        positive(self, "server_lr")

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)


@dataclass(frozen=True)
class FedSGD(Algorithm):
    """The server takes a gradient step with the mean of the clients' full gradients.

    FedAvg with one local step on the full local batch and lr = 1, so that -delta is the client's gradient: SGD whose
    batch is the data of the cohort. There is no drift, and a round does as little work as is possible. A run with other
    local settings is refused.

    Paper: McMahan, Moore, Ramage, Hampson, Aguera y Arcas. Communication-Efficient Learning of Deep Networks from
    Decentralized Data. AISTATS 2017, arXiv:1602.05629; as in the large-cohort paper (Charles et al. 2021,
    arXiv:2106.07820).

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: x <- x - server_lr*D

    Hyper-parameters:
        server_lr: the step size of gradient descent; greater than 0. The large-cohort paper searched 0.001, 0.01, 0.1,
            1 and 10 and chose 0.1 (CIFAR-100, EMNIST), 1 (Shakespeare) and 10 (Stack Overflow). Too large, the loss
            swings or grows from round to round; too small, it falls slowly.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

    server_lr: float = 1.0

    name = "fedsgd"
    citation = MCMAHAN
    local_must_be = {"steps": 1, "batch_size": None, "lr": 1.0, "lr_decay": 1.0}  # noqa: RUF012

    def __post_init__(self):
        positive(self, "server_lr")

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)
