"""The settings of section 4.1 that the experiments share: algorithms, data, models, local training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ALGORITHMS = {"FedAvg": "fedavg", "FedDyn": "feddyn", "SCAFFOLD": "scaffold", "AdaBest": "adabest"}
MU = 0.02
BETA = {"1%": 0.6, "10%": 0.96, "100%": 0.98}
BETAS = {"1%": (0.2, 0.4, 0.6)}
"""Searched where the paper does not say which value won."""
ROUNDS = {"1%": 1000, "10%": 1200, "100%": 2000}
COHORT = {"1%": 1, "10%": 10, "100%": 100}
HETEROGENEITY: dict[str, dict[str, Any]] = {
    "α=0.03": {"data.partition": "dirichlet", "data.alpha": 0.03},
    "α=0.3": {"data.partition": "dirichlet", "data.alpha": 0.3},
    "IID": {"data.partition": "iid"},
}
COMMON: dict[str, Any] = {
    "local.lr": 0.1, "local.lr_decay": 0.998, "local.epochs": 5, "local.batch_size": 45,
    "local.last_batch": "bootstrap", "server.inference": "clients",
}  # fmt: skip
"""Of all experiments. Accuracies are of the average of all clients' last models, as in FedDyn's paper."""
MLP = {"model.name": "mlp", "local.weight_decay": 1e-4}
CNN = {"model.name": "cnn-adabest", "local.weight_decay": 1e-3, "local.augment": "half-crop-flip"}
TASKS: dict[str, dict[str, Any]] = {
    "EMNIST-L": {"data.name": "emnist-l", **MLP},
    "CIFAR10": {"data.name": "cifar10", **CNN},
    "CIFAR100": {"data.name": "cifar100", **CNN},
}
BLOCK = {"engine.kind": "block"}
"""For small models."""
CIFAR100_LIGHT_CNN = {**TASKS["CIFAR100"], "model.name": "cnn", "engine.kind": "single"}
CIFAR100_MLP = {**TASKS["CIFAR100"], "model.name": "mlp", **BLOCK}
MNIST_MLP = {"data.name": "mnist", **MLP, **BLOCK}

SIZE_ADAPTIVE = {name: {"algorithm.size_adaptive": True} for name in ("FedDyn", "SCAFFOLD")}
"""Appendix B: estimates weighed by the clients' examples; AdaBest's always are."""


def algorithm(name: str, beta: float = 0.96, mu: float = MU) -> dict[str, Any]:
    own = {"FedDyn": {"algorithm.mu": mu}, "AdaBest": {"algorithm.mu": mu, "algorithm.beta": beta}}
    return {"algorithm.name": ALGORITHMS[name], **own.get(name, {})}


def searched_betas(name: str, share: str) -> dict[str, Sequence[float]]:
    """The grid of a cell, chosen from by the accuracy on held-out clients."""
    return {"algorithm.beta": BETAS[share]} if name == "AdaBest" and share in BETAS else {}
