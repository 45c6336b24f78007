"""A transformer whose pretrained weights are frozen, with LoRA adapters: only these and the last layer are trained."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Federation, simulate
from traps.plain import AUTO, BLOCK, LOCAL, PROCESSES, SINGLE, assert_trains_as_plain_torch, made

WIDTH, RANK, LENGTH, CLIENTS = 8, 2, 6, 4
TRAINED = {f"attention.{part}.{factor}" for part in ("query", "value") for factor in ("down", "up")} | {
    "last.weight",
    "last.bias",
}


class Returned(NamedTuple):
    logits: Tensor
    tokens: Tensor


class LoraLinear(nn.Module):
    """W x + up down x (Hu et al. 2021); `up` is not 0, so that both factors have a gradient from the first step on."""

    def __init__(self) -> None:
        super().__init__()
        self.pretrained = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, WIDTH) / WIDTH)
        self.up = nn.Parameter(torch.randn(WIDTH, RANK) / RANK)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.pretrained(inputs) + inputs @ self.down.T @ self.up.T


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = LoraLinear(), LoraLinear()
        self.key = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2) / WIDTH**0.5
        return scores.masked_fill(~mask.unsqueeze(1), -torch.inf).softmax(-1) @ self.value(tokens)


class Transformer(nn.Module):
    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(13, WIDTH).requires_grad_(False)
        self.register_buffer("positions", torch.randn(LENGTH, WIDTH))
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Returned:
        tokens = self.words(input_ids) + self.positions
        tokens = self.norm(tokens + self.attention(tokens, attention_mask > 0))
        kept = attention_mask.unsqueeze(-1).to(tokens.dtype)
        return Returned(self.last((tokens * kept).sum(1) / kept.sum(1)), tokens)


def logits(returned: Returned) -> Tensor:
    return returned.logits


def texts() -> Federation:
    generator = torch.Generator().manual_seed(0)
    clients = []
    for n in (3, 7, 4, 5):
        words = torch.randint(0, 13, (n, LENGTH), generator=generator)
        length = torch.randint(1, LENGTH + 1, (n, 1), generator=generator)
        mask = (torch.arange(LENGTH) < length).long()
        labels = torch.randint(0, 3, (n,), generator=generator)
        clients.append(({"input_ids": words, "attention_mask": mask}, labels))
    return Federation.from_clients(clients, test=clients[1], classes=3)


def test_adapters_train_as_in_a_plain_loop():
    assert_trains_as_plain_torch(
        made(Transformer), F.cross_entropy, texts(), engines=(SINGLE, AUTO, PROCESSES), output=logits
    )


def test_only_the_adapters_and_the_last_layer_change_and_only_their_bytes_are_sent():
    module = made(Transformer)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for engine in (SINGLE, BLOCK):
        result = simulate(
            "fedavg", texts(), module, rounds=2, cohort=CLIENTS, local=LOCAL, engine=engine, output=logits
        )
        after = result.module().state_dict()
        assert {name for name, value in after.items() if not torch.equal(value, before[name])} == TRAINED
        sent = CLIENTS * sum(before[name].numel() for name in TRAINED) * 4  # of float32
        assert result.history["bytes_up"] == [sent, sent]
        assert result.history["bytes_down"] == [sent, sent]
