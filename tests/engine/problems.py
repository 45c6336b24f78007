"""Small federations and models, and the run that most tests of the engine vary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from driftless import EngineSettings, Federation, LocalTraining, Record, Result, simulate

ENGINE = ("block_size", "threads", "workers", "memory", "replay")
"""Options of `run` that are settings of the engine."""


def regression(sizes: list[int], features: int = 3, seed: int = 0) -> Federation:
    generator = torch.Generator().manual_seed(seed)
    clients = []
    for n in sizes:
        inputs = torch.randn(n, features, generator=generator, dtype=torch.float64)
        clients.append((inputs, inputs.sum(1) + torch.randn(n, generator=generator, dtype=torch.float64)))
    return Federation.from_clients(clients, test=clients[0])


def classification(sizes: list[int], features: int = 4, classes: int = 3, seed: int = 0) -> Federation:
    generator = torch.Generator().manual_seed(seed)
    clients = []
    for n in sizes:
        labels = torch.randint(0, classes, (n,), generator=generator)
        clients.append((torch.randn(n, features, generator=generator, dtype=torch.float64) + labels[:, None], labels))
    return Federation.from_clients(clients, test=clients[0], classes=classes)


def seeded(make: Any, seed: int = 0) -> nn.Module:
    """A module in float64 whose parameters depend on nothing but the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double()


def linear(features: int = 3) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(features, 1), nn.Flatten(0)))


def network(features: int = 4, classes: int = 3, dropout: float = 0.0) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(features, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, classes)))


def vector(module: nn.Module) -> Tensor:
    """All trainable parameters, one after the other."""
    return torch.cat([p.detach().flatten() for p in module.parameters() if p.requires_grad])


def run(algorithm: Any, federation: Federation, model: Any, **options: Any) -> tuple[Result, list[Record]]:
    records: list[Record] = []
    settings: dict[str, Any] = {
        "rounds": 2,
        "cohort": federation.clients,
        "local": LocalTraining(lr=0.1, steps=2, batch_size=2),
        "dtype": torch.float64,
        "engine": "block",
        "on_round": records.append,
    }
    settings |= options
    own = {name: settings.pop(name) for name in ENGINE if name in settings}
    if not isinstance(settings["engine"], EngineSettings):
        settings["engine"] = EngineSettings(settings["engine"], **own)
    return simulate(algorithm, federation, model, **settings), records
