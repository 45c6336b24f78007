"""FedAvg as a plain PyTorch loop. Whatever a model or a loss does, driftless trains it like this, or refuses it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import EngineSettings, Federation, InputError, LocalTraining, simulate
from driftless.engine.batches import plan
from driftless.random import stream, torch_stream

Loss = Callable[[Tensor, Tensor], Tensor]
LOCAL = LocalTraining(lr=0.1, epochs=2, batch_size=3)
"""Clients of other sizes have other numbers of steps and short minibatches: blocks are padded."""
ROUNDS = 4
"""Of a block's steps, the first two are recorded, and some of the others are replayed and checked."""
SINGLE, BLOCK = EngineSettings("single", workers=1), EngineSettings("block", workers=1)
PROCESSES, AUTO = EngineSettings("single", workers=2), EngineSettings(workers=1)


def labels(sizes: tuple[int, ...] = (3, 7, 4, 5), classes: int = 3, shape: tuple[int, ...] = (4,)) -> Federation:
    generator = torch.Generator().manual_seed(0)
    clients = [
        (torch.randn(n, *shape, generator=generator), torch.randint(0, classes, (n,), generator=generator))
        for n in sizes
    ]
    return Federation.from_clients(clients, test=clients[0], classes=classes)


def made(make: Callable[[], nn.Module]) -> nn.Module:
    """The same parameters every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def trained(
    module: nn.Module,
    federation: Federation,
    loss: Loss,
    local: LocalTraining = LOCAL,
    train: Callable[[nn.Module], object] = nn.Module.train,
    output: Callable[[Any], Tensor] = lambda outputs: outputs,
) -> Tensor:
    """The parameters after some rounds in which every client trains a copy of the module, in float64.

    `train` puts the copy into the mode in which it is trained.
    """
    module, federation = copy.deepcopy(module).double(), federation.to(torch.float64)
    x = vector(module)
    for t in range(1, ROUNDS + 1):
        total = torch.zeros_like(x)
        for client in range(federation.clients):
            own = copy.deepcopy(module)
            train(own)
            fill(own, x)
            inputs, targets = federation.client(client)
            with torch_stream(0, "train", t, client):
                for rows in minibatches(local, len(targets), t, client):
                    own.zero_grad()
                    loss(output(called(own, inputs, rows)), targets[rows]).backward()
                    with torch.no_grad():
                        for p in trainable(own):
                            p -= local.lr * (0 if p.grad is None else p.grad.to_dense())
            total += len(targets) * vector(own)
        x = total / federation.sizes.sum()
    return x


def called(module: nn.Module, inputs: Any, rows: Tensor) -> Any:
    if isinstance(inputs, dict):
        return module(**{name: part[rows] for name, part in inputs.items()})
    return module(*(part[rows] for part in inputs)) if isinstance(inputs, tuple) else module(inputs[rows])


def tensors(inputs: Any) -> list[Tensor]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs.values() if isinstance(inputs, dict) else inputs)


def minibatches(local: LocalTraining, examples: int, t: int, client: int) -> list[Tensor]:
    """The rows of each minibatch, as the engine draws them."""
    drawn = plan(local, examples, stream(0, "batches", t, client))
    return [torch.from_numpy(row[:n]) for row, n in zip(drawn.index, drawn.count, strict=True)]


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def vector(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trainable(module)])


def fill(module: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        for p, values in zip(trainable(module), x.split([p.numel() for p in trainable(module)]), strict=True):
            p.copy_(values.view_as(p))


def run(module: nn.Module, federation: Federation, engine: EngineSettings, **options: Any) -> Tensor:
    """The same run by driftless, which must leave behind everything that was given to it as it was."""
    parts = [(federation.inputs, federation.targets), *([federation.test] if federation.test else [])]
    data = [[*tensors(inputs), targets] for inputs, targets in parts]
    given = [*module.state_dict().values(), *(part for parts in data for part in parts)]
    before = [value.clone() for value in given] + [torch.get_rng_state()]
    settings: dict[str, Any] = {"algorithm": "fedavg", "rounds": ROUNDS, "local": LOCAL, "dtype": torch.float64}
    try:
        return simulate(
            federation=federation, model=module, engine=engine, cohort=federation.clients, **{**settings, **options}
        ).x
    finally:
        assert all(map(torch.equal, before, [*given, torch.get_rng_state()])), "what was given has changed"


def assert_trains_as_plain_torch(
    module: nn.Module,
    loss: Loss = F.cross_entropy,
    federation: Federation | None = None,
    engines: tuple[EngineSettings, ...] = (SINGLE, AUTO),
    not_in_blocks: str | None = None,
    train: Callable[[nn.Module], object] = nn.Module.train,
    **options: Any,
) -> None:
    """`not_in_blocks`: why blocks are refused if they are asked for; None: they train it, too."""
    federation = labels() if federation is None else federation
    own = {"output": options["output"]} if "output" in options else {}
    expected = trained(module, federation, loss, train=train, **own)
    for engine in engines if not_in_blocks else (*engines, BLOCK):
        x = run(module, federation, engine, loss=loss, **options)
        torch.testing.assert_close(x, expected, rtol=0, atol=1e-12, msg=lambda text, e=engine: f"{e}: {text}")
    if not_in_blocks:
        assert_refused(module, not_in_blocks, loss, federation, (BLOCK,), **options)


def assert_refused(
    module: nn.Module,
    reason: str,
    loss: Loss = F.cross_entropy,
    federation: Federation | None = None,
    engines: tuple[EngineSettings, ...] = (SINGLE, AUTO, BLOCK),
    **options: Any,
) -> None:
    """Before the first round; `reason` is a regular expression that the message contains."""
    federation = labels() if federation is None else federation
    for engine in engines:
        rounds: list[object] = []
        with pytest.raises(InputError, match=reason):
            run(module, federation, engine, loss=loss, on_round=rounds.append, **options)
        assert rounds == []
