"""What must hold for every algorithm and model: a run whose steps are replayed is, to the bit, the run as written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from driftless import Algorithm, EngineSettings, Federation, LocalTraining, Record, Result, simulate
from driftless.algorithms import FedAvg
from driftless.engine.local import LocalStep
from driftless.errors import InputError
from driftless.testing.problems import local_training
from laws.entries import ENTRIES, NAMES
from laws.trees import assert_close, assert_same_bits

SIZES = [3, 11, 19, 24, 35]
"""With batches of 8: 1, 2, 3, 3 and 5 steps; short batches, a masked step, and clients that leave the block."""


@functools.cache
def federation() -> Federation:
    generator = torch.Generator().manual_seed(6)
    clients = []
    for i, n in enumerate(SIZES):
        labels = (torch.randint(0, 2, (n,), generator=generator) + i) % 3
        inputs = torch.randn(n, 8, generator=generator, dtype=torch.float64)
        inputs[:, 0] += labels
        clients.append((inputs, labels))
    return Federation.from_clients(clients, test=clients[2], classes=3)


class Run(NamedTuple):
    records: list[Record]
    result: Result
    steps: int
    """How often the local step was called in Python."""


def block(replay: bool, block_size: int = len(SIZES)) -> EngineSettings:
    return EngineSettings("block", block_size, workers=1, replay=replay)


def play(algorithm: Algorithm, module: nn.Module, engine: EngineSettings, **options: Any) -> Run:
    records: list[Record] = []
    calls: list[int] = []
    step = LocalStep.__call__

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return step(*arguments)

    settings: dict[str, Any] = {
        "rounds": 4,  # the first two are recorded, the third is replayed and checked, the fourth is replayed
        "cohort": len(SIZES),
        "local": local_training(algorithm, lr=0.1, batch_size=8, weight_decay=0.01, clip_norm=0.5, lr_decay=0.9),
        "dtype": torch.float64,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStep, "__call__", counted)
        result = simulate(
            algorithm, federation(), module, engine=engine, **{**settings, **options}, on_round=records.append
        )
    return Run(records, result, len(calls))


def assert_replay_changes_nothing(
    algorithm: Algorithm, module: nn.Module, block_size: int = len(SIZES), replayable: bool = True, **options: Any
) -> None:
    before = torch.random.get_rng_state()
    replayed = play(algorithm, module, block(True, block_size), **options)
    written = play(algorithm, module, block(False, block_size), **options)
    assert (replayed.steps < written.steps) == replayable, f"{replayed.steps} of {written.steps} steps ran as written"
    for one, other in zip(replayed.records, written.records, strict=True):
        assert_same_bits(one.server, other.server)
        assert_same_bits(one.aggregate, other.aggregate)
        assert measured(one) == measured(other)
    assert_same_bits(replayed.result.inference, written.result.inference)
    assert_same_bits(*(clients_of(algorithm, run.result) for run in (replayed, written)))
    assert torch.equal(torch.random.get_rng_state(), before)


def measured(record: Record) -> dict[str, float]:
    assert record.metrics["train_loss"] > 0
    assert record.metrics["test_loss"] > 0
    return {name: value for name, value in record.metrics.items() if not name.endswith("seconds")}


def clients_of(algorithm: Algorithm, result: Result) -> Any:
    """The states of all clients, stacked."""
    return result.state.clients.get(list(range(len(SIZES))), algorithm.init_client(result.x))


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return make().double()


def perceptron(inplace: bool = False) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 5), nn.ReLU(inplace), nn.Linear(5, 3))


def has_local_steps_of_its_own(algorithm: Algorithm) -> bool:
    methods = ("init_local", "direction", "upload")
    return any(getattr(type(algorithm), method) is not getattr(Algorithm, method) for method in methods)


@pytest.mark.parametrize("name", [name for name in NAMES if has_local_steps_of_its_own(ENTRIES[name])] + ["fedavg"])
def test_replay_changes_no_bit_of_any_algorithm(name: str):
    assert_replay_changes_nothing(ENTRIES[name], seeded(perceptron))


class Recurrent(nn.Module):
    """Four steps of two numbers each."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.layer(inputs.view(-1, 4, 2))[0][:, -1])


class Gated(nn.Module):
    """A recurrent layer of ordinary operations."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new, self.last = nn.Linear(5, 6), nn.Linear(5, 3), nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs.new_zeros(len(inputs), 3)
        for values in inputs.view(-1, 4, 2).unbind(1):
            z, r = self.gates(torch.cat([values, hidden], -1)).sigmoid().chunk(2, -1)
            hidden = z * hidden + (1 - z) * self.new(torch.cat([values, r * hidden], -1)).tanh()
        return self.last(hidden)


class Attention(nn.Module):
    """Each of four steps looks at the ones before it."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.last = nn.Linear(2, 6), nn.Linear(8, 3)
        self.register_buffer("later", torch.ones(4, 4).triu(1).bool())

    def forward(self, inputs: Tensor) -> Tensor:
        q, k, v = self.queries(inputs.view(-1, 4, 2)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)).masked_fill(self.later, -torch.inf)
        return self.last((scores.softmax(-1) @ v).flatten(1))


class Convolved(nn.Module):
    """A circular convolution by the Fourier transform."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.last = nn.Parameter(torch.randn(8)), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.fft.ifft(torch.fft.fft(inputs) * torch.fft.fft(self.kernel)).real)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 2, padding=1), nn.GroupNorm(2, 4), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Dropout(0.4), nn.Linear(5, 4), nn.Dropout(0.2), nn.Linear(4, 3))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dropout": with_dropout,
    "a recurrent layer written by hand": Gated,
    "convolutions and GroupNorm": convolutional,
    "attention": Attention,
    "layers that write over their inputs": lambda: perceptron(inplace=True),
    "complex numbers": Convolved,
}


TWO_GRADIENTS = ("dropout", "layers that write over their inputs")
"""Models for which the second gradient of Mime's steps is another case."""


@pytest.mark.parametrize(
    ("model", "algorithm"), [*((m, "fedavg") for m in MODELS), *((m, "mime") for m in TWO_GRADIENTS)]
)
def test_replay_changes_no_bit_of_any_kind_of_model(model: str, algorithm: str):
    assert_replay_changes_nothing(ENTRIES[algorithm], seeded(MODELS[model]))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_a_fused_recurrent_layer_runs_as_written():
    """Its operation computes less when no gradient is asked for, as in a replayed step."""
    assert_replay_changes_nothing(ENTRIES["mime"], seeded(Recurrent), replayable=False, dtype=torch.float32)


TRAININGS = {
    "plain steps": LocalTraining(lr=0.1, steps=4, batch_size=3),
    "full batches": LocalTraining(lr=0.1, steps=4, batch_size=None),
    "bootstrapped batches": LocalTraining(lr=0.1, epochs=2, batch_size=8, last_batch="bootstrap"),
    "weight decay without clipping": LocalTraining(lr=0.1, epochs=1, batch_size=8, weight_decay=0.1),
}


@pytest.mark.parametrize("training", TRAININGS)
def test_replay_changes_no_bit_of_any_local_training(training: str):
    """In single precision, in which most runs are."""
    options: dict[str, Any] = {"local": TRAININGS[training], "dtype": torch.float32}
    assert_replay_changes_nothing(ENTRIES["scaffold"], seeded(perceptron), **options)


@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_replay_changes_no_bit_of_blocks_smaller_than_the_cohort(block_size: int):
    assert_replay_changes_nothing(ENTRIES["scaffold"], seeded(perceptron), block_size)


class Kept(NamedTuple):
    y: Tensor


@dataclass(frozen=True)
class Previous(FedAvg):
    """Its local state is the iterate before the last one."""

    def init_local(self, msg, client, r):
        return Kept(msg.x)

    def direction(self, step, local, msg, client, r):
        return step.g + 0.3 * (step.y - local.y), Kept(step.y)


@dataclass(frozen=True)
class Anchored(FedAvg):
    """Its local state is the server's model, after the first step."""

    def init_local(self, msg, client, r):
        return Kept(torch.zeros_like(msg.x))

    def direction(self, step, local, msg, client, r):
        return step.g + 0.3 * (step.y - local.y), Kept(msg.x)


@dataclass(frozen=True)
class Swapping(FedAvg):
    """Two local vectors that change places in every step."""

    def init_local(self, msg, client, r):
        return Kept(msg.x), Kept(2 * msg.x)

    def direction(self, step, local, msg, client, r):
        return step.g + 0.3 * local[0].y, (local[1], local[0])


class Doubled(NamedTuple):
    x: Tensor
    before: Tensor


@dataclass(frozen=True)
class Twofold(FedAvg):
    """The message has two vectors, which are one tensor in the first round."""

    def init_server(self, x, facts):
        return Doubled(x, x)

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return step.g + 0.3 * (msg.x - msg.before) + 0.1 * (step.y[:1] - msg.before[:1]), local

    def update(self, server, mean, r):
        return Doubled(server.x + mean.delta, server.x)


OWN: dict[str, Algorithm] = {
    "previous": Previous(),
    "anchored": Anchored(),
    "swapping": Swapping(),
    "twofold": Twofold(),
}


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_replay_changes_no_bit_of_an_algorithm_whose_states_share_memory(name: str, inplace: bool):
    assert_replay_changes_nothing(OWN[name], seeded(lambda: perceptron(inplace)))


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_engines_agree_for_an_algorithm_whose_states_share_memory(name: str, inplace: bool):
    """Steps: 3, 3, 6, 9 and 12. Clients leave the block after steps that were replayed, none of them masked."""
    local = LocalTraining(lr=0.1, epochs=3, batch_size=11)
    module = seeded(lambda: perceptron(inplace))
    one_by_one, together = (
        play(OWN[name], module, engine, local=local, rounds=2) for engine in (EngineSettings("single"), block(True))
    )
    for one, other in zip(one_by_one.records, together.records, strict=True):
        assert_close(one.server, other.server, 1e-12)


# -------------------------------------------------------------------------------- what cannot be recorded, or is hidden


@dataclass(frozen=True)
class ReadsNumbers(FedAvg):
    """Its direction depends on a number that is read out of a tensor."""

    def direction(self, step, local, msg, client, r):
        return step.g * (0.5 if r.t.tolist() < 3 else 1.0), local


def test_an_algorithm_that_reads_numbers_out_of_tensors_runs_as_written():
    assert_replay_changes_nothing(ReadsNumbers(), seeded(perceptron), replayable=False)


class HiddenCounter(nn.Module):
    """From a number of calls on, it computes something else; neither the module nor a tensor shows the number."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        left = iter(range(calls))
        self.scale = Closure(lambda: 1.0 if next(left, None) is not None else 2.0)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs) * self.scale()


class Closure:
    """A function that copies of a module share."""

    def __init__(self, f: Callable[[], float]) -> None:
        self._f = f

    def __call__(self) -> float:
        return self._f()

    def __deepcopy__(self, _: Any) -> Closure:
        return self


def test_a_model_that_changes_during_the_run_ends_it_when_a_replayed_step_is_checked():
    """Its four steps a round are replayed; the evaluations call the model until the counter has run out."""
    options: dict[str, Any] = {"local": LocalTraining(lr=0.1, steps=4, batch_size=3), "rounds": 30}
    with pytest.raises(InputError, match=r"differs from the step as written.* Set engine\.replay=false"):
        play(FedAvg(), seeded(lambda: HiddenCounter(25)), block(True), **options)
    assert len(play(FedAvg(), seeded(lambda: HiddenCounter(25)), block(False), **options).records) == 30
