"""A lower bound on epsilon, measured: guess from the trained model which clients took part.

Steinke, Nasr, Jagielski. Privacy Auditing with One (1) Training Run. NeurIPS 2023, arXiv:2305.08846. Each of k canary
clients is in the federation with probability 1/2. After the run every canary gets a score, and for the highest and the
lowest scores it is guessed that the client was in or out. If training is (epsilon, delta)-private with respect to
adding or removing a client, the number of correct guesses is hardly more than binomial with probability
e^epsilon/(1 + e^epsilon) each (Theorem 5.2); so many correct guesses refute a small epsilon.

A canary has one example with an input of its own, a feature that is 0 for everybody else: its update moves parameters
that no other client touches. Its score is how far they went in the direction of its label. The run itself is an
ordinary `simulate`, and the attack sees only the final model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from driftless.algorithms import FedAvg
from driftless.data.cohorts import Poisson
from driftless.data.federation import Federation
from driftless.engine.local import LocalTraining
from driftless.errors import InputError, check_range, check_whole
from driftless.privacy.mechanism import DifferentialPrivacy
from driftless.random import stream
from driftless.simulate import simulate

FEATURE = 100.0
"""The canary's own input: large, so that its update is longer than any clipping norm in use."""


@dataclass(frozen=True)
class Audit:
    canaries: int
    guesses: int
    correct: int
    delta: float
    confidence: float
    claimed: float
    """Epsilon by the accountant; infinite without noise."""
    accuracy: float
    """Of the model on the test set."""

    @property
    def lower_bound(self) -> float:
        """With this confidence, no smaller epsilon is true."""
        return epsilon_lower_bound(self.canaries, self.guesses, self.correct, self.delta, self.confidence)

    def __str__(self) -> str:
        return (
            f"{self.correct} of {self.guesses} guesses about {self.canaries} canaries are correct: epsilon >= "
            f"{self.lower_bound:.2f} with {self.confidence:.0%} confidence; the accountant says {self.claimed:.2f} "
            f"(delta {self.delta:.1g}); test accuracy {self.accuracy:.3f}"
        )


def audit(
    federation: Federation,
    *,
    noise_multiplier: float,
    clip: float = 0.1,
    canaries: int = 1000,
    guesses: int = 200,
    rounds: int = 20,
    probability: float = 1.0,
    delta: float = 1e-5,
    confidence: float = 0.95,
    lr: float = 0.1,
    seed: int = 0,
) -> Audit:
    """Train a linear classifier on the federation and the canaries, with DP-FedAvg, and guess who was a canary.

    `guesses`, at most `canaries`, is chosen before the run. Epsilon is about adding or removing a client, so each takes
    part in a round with the same `probability`.
    """
    check_whole("canaries of an audit", canaries, 2)
    check_whole("guesses of an audit", guesses, 1, most=canaries)
    check_range("confidence of an audit", confidence, 0, 1, low_open=True, high_open=True)
    classes = federation.classes
    if classes is None:
        raise InputError(
            "an audit trains a classifier, and the federation has numbers as targets; give one with labels."
        )
    included = stream(seed, "canaries").random(canaries) < 0.5
    labels = np.arange(canaries) % classes
    everybody = with_canaries(federation, labels, included)
    width = everybody.input_shape[0]
    model = nn.Linear(width, classes)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    privacy = DifferentialPrivacy(FedAvg(), noise_multiplier, clip, delta=delta)
    result = simulate(
        privacy, everybody, model, rounds=rounds, cohort=Poisson(probability), seed=seed, evaluate_every=rounds,
        local=LocalTraining(lr=lr, steps=1, batch_size=None),
    )  # fmt: skip
    weight = result.x[: width * classes].view(classes, width)
    scores = scores_of(weight[:, width - canaries :], labels)
    correct = correct_guesses(scores, included, guesses)
    claimed = result.history.last("epsilon")
    accuracy = result.history.last("test_accuracy")
    return Audit(
        canaries, guesses, correct, delta, confidence, math.inf if claimed is None else claimed,
        math.nan if accuracy is None else accuracy,
    )  # fmt: skip


def with_canaries(federation: Federation, labels: NDArray[np.int64], included: NDArray[np.bool_]) -> Federation:
    """The clients with a feature more for each canary, and a client for each canary that is included."""
    canaries = len(labels)

    def wider(inputs: Tensor) -> Tensor:
        flat = inputs.reshape(len(inputs), -1)
        return torch.cat([flat, flat.new_zeros(len(flat), canaries)], 1)

    parts = federation.sizes.tolist()
    inputs = torch.as_tensor(federation.inputs).split(parts)
    clients = [(wider(own), targets) for own, targets in zip(inputs, federation.targets.split(parts), strict=True)]
    dimensions = clients[0][0].shape[1]
    for i in included.nonzero()[0]:
        own = torch.zeros(1, dimensions)
        own[0, dimensions - canaries + i] = FEATURE
        clients.append((own, torch.tensor([labels[i]])))
    test = None if federation.test is None else (wider(torch.as_tensor(federation.test[0])), federation.test[1])
    return Federation.from_clients(clients, test=test, classes=federation.classes)


def scores_of(weight: Tensor, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far the weights [classes, canaries] of each canary's feature went where its own gradient pulls them."""
    pull = torch.full_like(weight, -1 / len(weight))
    pull[labels, torch.arange(len(labels))] += 1
    return (weight * pull).sum(0).double().numpy()


def correct_guesses(scores: NDArray[np.float64], included: NDArray[np.bool_], guesses: int) -> int:
    """The highest half of the guesses: in; the lowest half: out."""
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[: guesses // 2], order[len(order) - (guesses - guesses // 2) :]
    return int((~included[lowest]).sum() + included[highest].sum())


def epsilon_lower_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that so many correct guesses refute at this confidence; 0 if they refute none."""
    least, most = 0.0, 1.0
    if p_value(canaries, guesses, correct, least, delta) > 1 - confidence:
        return 0.0
    while p_value(canaries, guesses, correct, most, delta) < 1 - confidence:
        most *= 2
    for _ in range(40):
        middle = (least + most) / 2
        refuted = p_value(canaries, guesses, correct, middle, delta) < 1 - confidence
        least, most = (middle, most) if refuted else (least, middle)
    return least


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The chance of at least so many correct guesses under (epsilon, delta)-privacy (Theorem 5.2)."""
    from scipy.stats import binom

    q = 1 / (1 + math.exp(-epsilon))
    chance = float(binom.sf(correct - 1, guesses, q))
    fewer = np.cumsum(
        binom.pmf(np.arange(correct - 1, -1, -1), guesses, q)
    )  # P[correct - i <= B < correct], i = 1, ...
    steepest = float(np.max(fewer / np.arange(1, correct + 1), initial=0.0))
    return min(1.0, chance + 2 * canaries * delta * steepest)
