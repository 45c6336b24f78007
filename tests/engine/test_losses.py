from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Federation, InputError, LocalTraining
from driftless.engine.losses import correct, cross_entropy, default_loss, half_squared_error, weighted
from engine.problems import classification, linear, network, regression, run


def huber(outputs: Tensor, targets: Tensor) -> Tensor:
    """A user's own loss: some function whose mean over a batch is returned."""
    return F.huber_loss(outputs, targets, delta=0.3)


def labelled(generator: torch.Generator, n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 4, generator=generator, dtype=torch.float64), torch.randint(0, 4, (n,), generator=generator)


def sequences(generator: torch.Generator, n: int) -> tuple[Tensor, Tensor]:
    outputs = torch.randn(n, 5, 4, generator=generator, dtype=torch.float64)
    return outputs, torch.randint(0, 4, (n, 5), generator=generator)


def numbers(generator: torch.Generator, n: int) -> tuple[Tensor, Tensor]:
    return tuple(torch.randn(n, generator=generator, dtype=torch.float64) for _ in range(2))


def pairs(generator: torch.Generator, n: int) -> tuple[Tensor, Tensor]:
    return tuple(torch.randn(n, 2, generator=generator, dtype=torch.float64) for _ in range(2))


CASES = {
    "cross-entropy": (cross_entropy, labelled),
    "cross-entropy of sequences": (cross_entropy, sequences),
    "squared error": (half_squared_error, numbers),
    "squared error of several outputs": (half_squared_error, pairs),
    "a user's own loss": (huber, numbers),
    "a user's own loss of several outputs": (huber, pairs),
}


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 6), padding=st.integers(0, 4), seed=st.integers(0, 100))
@pytest.mark.parametrize("case", CASES)
def test_the_weighted_loss_is_the_mean_over_the_part_that_is_not_padding(case: str, n: int, padding: int, seed: int):
    loss, draw = CASES[case]
    outputs, targets = draw(torch.Generator().manual_seed(seed), n + padding)
    outputs[n:] *= 1e6
    weights = (torch.arange(n + padding) < n).double()
    outputs.requires_grad_()
    padded = weighted(loss, outputs, targets, weights)
    (gradient,) = torch.autograd.grad(padded, outputs)
    exact = loss(outputs[:n], targets[:n])
    (exact_gradient,) = torch.autograd.grad(exact, outputs)
    torch.testing.assert_close(padded, exact, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(gradient, exact_gradient, rtol=1e-13, atol=1e-15)
    assert not gradient[n:].any()


def test_cross_entropy_by_hand():
    """Outputs log 1, log 3 and label 1: -log(3/4); then label 0: -log(1/4)."""
    outputs = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]], dtype=torch.float64)
    loss = cross_entropy(outputs, torch.tensor([1, 0]))
    assert float(loss) == pytest.approx((math.log(4 / 3) + math.log(4)) / 2, rel=1e-14)


def test_half_squared_error_by_hand():
    """Sums over the outputs of an example, averages over examples: (1/2)(9 + 1)/2 and (1/2)((1 + 4) + (9 + 0))/2."""
    assert float(half_squared_error(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 1.0]))) == 2.5
    outputs = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert float(half_squared_error(outputs, torch.tensor([[0.0, 0.0], [0.0, 5.0]]))) == 3.5


def test_the_default_loss_follows_the_kind_of_the_targets():
    assert default_loss(torch.tensor([0, 1])) is cross_entropy
    assert default_loss(torch.tensor([0.0, 1.0])) is half_squared_error


def test_a_match_is_where_the_largest_output_is_the_label():
    outputs = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])
    assert correct(cross_entropy, outputs, torch.tensor([1, 1, 1])).tolist() == [1, 0, 1]
    both = correct(cross_entropy, torch.stack([outputs, -outputs]), torch.tensor([[1, 1, 1], [1, 1, 1]]))
    assert both.tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (torch.zeros(4), torch.zeros(4)),
        (torch.zeros(4, 2), torch.zeros(4, 2)),
        (torch.zeros(4), torch.zeros(4, dtype=torch.long)),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long)),
        (torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.long)),
    ],
    ids=["numbers", "vectors", "a score for labels", "a column of scores for labels", "scores for several labels"],
)
def test_outputs_that_are_not_class_scores_have_no_accuracy(outputs: Tensor, targets: Tensor):
    assert correct(cross_entropy, outputs, targets).numel() == 0


@pytest.mark.parametrize("engine", ["single", "block"])
def test_a_users_own_loss_is_the_one_that_is_minimised_and_reported(engine: str):
    federation, module = regression([4, 7, 5]), linear()
    local = LocalTraining(lr=0.1, epochs=2, batch_size=3)
    result, records = run("fedavg", federation, module, loss=huber, local=local, engine=engine, rounds=30)
    inputs, targets = federation.test
    expected = huber(result.module()(inputs), targets).detach()
    assert records[-1].metrics["test_loss"] == pytest.approx(float(expected), rel=1e-12)
    assert result.history["train_loss"][-1] < 0.8 * result.history["train_loss"][0]
    other, _ = run("fedavg", federation, module, local=local, engine=engine, rounds=30)
    assert not torch.allclose(result.x, other.x)


def test_both_engines_agree_on_a_users_own_loss_with_short_batches():
    local, federation = LocalTraining(lr=0.1, epochs=2, batch_size=3), regression([4, 7, 5])
    block, _ = run("fedavg", federation, linear(), loss=huber, local=local)
    single, _ = run("fedavg", federation, linear(), loss=huber, local=local, engine="single")
    torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["class weights", "ignored labels"])
def test_a_loss_that_is_no_plain_mean_over_examples_is_never_silently_another_one_in_a_block(kind: str):
    """torch divides by the sum of the weights (or by the labels that count), which no single example knows.

    Either both engines minimise the same function, or the block engine says that it cannot.
    """

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if kind == "class weights":
            return F.cross_entropy(outputs, targets, weight=outputs.new_tensor([1.0, 5.0, 20.0]))
        return F.cross_entropy(outputs, targets, ignore_index=1)

    federation, local = classification([4, 7, 5]), LocalTraining(lr=0.1, epochs=1, batch_size=3)
    single, _ = run("fedavg", federation, network(), loss=loss, local=local, engine="single")
    try:
        block, _ = run("fedavg", federation, network(), loss=loss, local=local, engine="block")
    except InputError as error:
        assert "mean" in str(error)  # noqa: PT017
    else:
        torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-12)


def test_both_engines_agree_on_sequences_with_short_batches():
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(6, 3), nn.Linear(3, 4)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.out(self.embed(tokens).cumsum(1).tanh())

    generator = torch.Generator().manual_seed(0)
    clients = [
        (torch.randint(0, 6, (n, 5), generator=generator), torch.randint(0, 4, (n, 5), generator=generator))
        for n in (3, 4, 7)
    ]
    federation = Federation.from_clients(clients, test=clients[2], classes=4)
    local = LocalTraining(lr=0.5, epochs=2, batch_size=3)
    torch.manual_seed(0)
    module = Tagger()
    block, records = run("fedavg", federation, module, local=local)
    single, _ = run("fedavg", federation, module, local=local, engine="single")
    torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-13)
    outputs = block.module()(clients[2][0])
    assert records[-1].metrics["test_accuracy"] == pytest.approx(
        float((outputs.argmax(-1) == clients[2][1]).double().mean()), rel=1e-6
    )


def test_the_reported_training_loss_is_the_weighted_mean_over_clients_of_the_mean_over_steps():
    """One full-batch step a client: the loss at x^0, weighted by examples."""
    federation, module = classification([3, 7]), network()
    local = LocalTraining(lr=0.1, steps=1, batch_size=None)
    for weighting, weights in (("examples", [3, 7]), ("uniform", [1, 1])):
        result, _ = run("fedavg", federation, module, rounds=1, local=local, weighting=weighting)
        losses = [
            float(cross_entropy(module(inputs), labels).detach()) for inputs, labels in map(federation.client, (0, 1))
        ]
        expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
        assert result.history["train_loss"][0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("ending", "warned"), [([nn.Softmax(1)], True), ([], False)])
def test_probabilities_where_the_loss_takes_logits_are_pointed_out_before_the_first_round(
    ending: list[nn.Module], warned: bool
):
    model = nn.Sequential(nn.Linear(4, 3), *ending).double()
    result, _ = run("fedavg", classification([4, 5]), model)
    assert any("look like probabilities" in event.what for event in result.events) == warned
