"""What is measured: the rows as data, the examples in plain NumPy and the models in plain PyTorch.

Every peer imports this file in its own environment, so that all of them train the same module on the same numbers.
Nothing here knows driftless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

VOCABULARY = 80


@dataclass(frozen=True)
class Row:
    """One kind of work: who trains on what, and for how long."""

    name: str
    model: str
    clients: int
    cohort: int
    examples: int
    shape: tuple[int, ...]
    classes: int
    batch: int
    epochs: int
    lr: float

    @property
    def steps(self) -> int:
        """Local steps of one client in one round; the last batch of an epoch may be short."""
        return self.epochs * math.ceil(self.examples / self.batch)

    def __str__(self) -> str:
        return (
            f"{self.model}, {self.cohort} of {self.clients:,} clients, {self.examples} examples each, "
            f"batch {self.batch}, {self.epochs} epoch{'s' if self.epochs > 1 else ''} ({self.steps} steps)"
        )


MLP = Row("mlp", "mlp", 100, 10, 480, (784,), 10, 45, 5, 0.05)
LOGISTIC = Row("logistic", "logistic", 1000, 10, 60, (784,), 10, 10, 1, 0.01)
CNN = Row("cnn", "cnn", 20, 10, 45, (3, 32, 32), 10, 45, 1, 0.05)
LSTM = Row("lstm", "lstm", 20, 10, 50, (80,), VOCABULARY, 10, 1, 0.5)
GRU = replace(LSTM, name="gru", model="gru")
CNN_6 = replace(CNN, name="cnn-6", cohort=4, examples=270)
RESNET = replace(CNN, name="resnet", model="resnet", cohort=4, examples=90)
SMALL = Row("population-1000", "small", 1000, 10, 10, (64,), 10, 10, 1, 0.01)

ROWS = {
    row.name: row
    for row in (
        MLP,
        replace(MLP, name="mlp-all", cohort=100),
        LOGISTIC,
        replace(LOGISTIC, name="logistic-50", cohort=50),
        CNN,
        CNN_6,
        RESNET,
        LSTM,
        GRU,
        SMALL,
        replace(SMALL, name="population-100000", clients=100_000),
    )
}


def images(row: Row, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """[clients, examples, *shape] and [clients, examples]: noise around a centre for each class, to be learnt."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, row.classes, (row.clients, row.examples))
    centres = rng.standard_normal((row.classes, *row.shape), dtype=np.float32)
    inputs = rng.standard_normal((row.clients, row.examples, *row.shape), dtype=np.float32)
    for client, labels in enumerate(targets):  # one client at a time: all at once would take twice the memory
        inputs[client] += 0.3 * centres[labels]
    return inputs, targets


def characters(row: Row, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[clients, examples, length] and [clients, examples]: the next character depends on the last one."""
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, VOCABULARY, (row.clients, row.examples, *row.shape))
    return inputs, (inputs[..., -1] * 7 + 3) % row.classes


def arrays(row: Row) -> tuple[NDArray[np.float32] | NDArray[np.int64], NDArray[np.int64]]:
    return characters(row) if row.model in ("lstm", "gru") else images(row)


def tensors(row: Row) -> tuple[Tensor, Tensor]:
    inputs, targets = arrays(row)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


class Recurrent(nn.Module):
    """Two layers over embedded characters; the last state predicts the next character."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.layers = kind(8, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, text: Tensor) -> Tensor:
        states, _ = self.layers(self.embedding(text))
        return self.head(states[:, -1])


def lstm() -> nn.Module:
    return Recurrent(nn.LSTM, 100)


def gru() -> nn.Module:
    return Recurrent(nn.GRU, 128)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))


def logistic() -> nn.Module:
    return nn.Linear(784, 10)


def small() -> nn.Module:
    """So small that what a population costs cannot hide behind the local steps."""
    return nn.Linear(64, 10)


def cnn() -> nn.Module:
    """The network of the AdaBest paper for 32x32 images."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 5 * 5, 394), nn.ReLU(),
        nn.Linear(394, 192), nn.ReLU(),
        nn.Linear(192, 10),
    )  # fmt: skip


class Residual(nn.Module):
    """Two convolutions of 3x3 with GroupNorm beside the identity."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.straight = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.GroupNorm(2, after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.GroupNorm(2, after),
        )  # fmt: skip
        same = before == after and stride == 1
        self.beside = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        return self.relu(self.straight(images) + self.beside(images))


def resnet() -> nn.Module:
    """ResNet-20 for 32x32 images, with GroupNorm."""
    widths = ((16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
              (64, 64, 1))  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(2, 16), nn.ReLU(),
        *(Residual(*each) for each in widths),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


BUILDERS = {
    "mlp": mlp, "logistic": logistic, "small": small, "cnn": cnn, "resnet": resnet, "lstm": lstm, "gru": gru,
}  # fmt: skip


def build(row: Row) -> nn.Module:
    """The model of a row; the same parameters every time."""
    torch.manual_seed(0)
    return BUILDERS[row.model]()


@torch.no_grad()
def training_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """The mean loss over the examples of the first clients: enough to see whether two peers learn alike."""
    model.eval()
    return cross_entropy(model(inputs[:10].flatten(0, 1)), targets[:10].flatten()).item()
