"""What surrounds a run: threads, modes and defaults of torch, callbacks that write."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from driftless import InputError, Record, simulate
from driftless.config.resolution import resolve
from driftless.runs.callbacks import Callback
from driftless.runs.run import start
from traps.plain import BLOCK, LOCAL, SINGLE, labels, made, run


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))


class Noisy(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs + 0.1 * torch.randn(inputs.shape, dtype=inputs.dtype))


@pytest.mark.parametrize("make", [network, lambda: Noisy(4, 3)], ids=["dropout", "torch's generator"])
def test_runs_of_several_threads_on_one_module_do_not_disturb_each_other(make: Callable[[], nn.Module]):
    module, federation = made(make), labels()

    def trained(engine) -> Tensor:
        return simulate(
            "fedavg", federation, module, rounds=6, cohort=3, local=LOCAL, engine=engine, dtype=torch.float64
        ).x

    kinds = [SINGLE, "auto"] * 4
    alone = [trained(kind) for kind in kinds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(trained, kinds))
    assert all(map(torch.equal, alone, together))


def test_a_run_inside_of_a_callback_does_not_disturb_the_outer_run():
    module, federation = made(lambda: Noisy(4, 3)), labels()
    alone = run(module, federation, SINGLE)
    nested = run(module, federation, SINGLE, on_round=lambda record: run(module, federation, SINGLE, seed=record.round))
    assert torch.equal(alone, nested)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Generator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


AROUND: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "another default dtype": lambda: default_dtype(torch.float64),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("engine", [SINGLE, BLOCK])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mode_that_a_run_is_called_in_does_not_matter(around: str, engine, dtype: torch.dtype):
    module = made(network)
    expected = run(module, labels(), engine, dtype=dtype, algorithm="scaffold")
    federation = labels()
    with AROUND[around]():
        result = run(module, federation, engine, dtype=dtype, algorithm="scaffold")
    assert torch.equal(result, expected)


def test_data_made_in_inference_mode_can_be_used_and_a_module_made_there_is_refused_as_by_plain_torch():
    with torch.inference_mode():
        module, federation = made(network), labels()
    assert torch.equal(run(made(network), federation, SINGLE), run(made(network), labels(), SINGLE))
    with pytest.raises(InputError, match="Inference tensors"):
        run(module, labels(), SINGLE)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "adabest", "fedadam"])
@pytest.mark.parametrize("engine", [SINGLE, BLOCK])
def test_a_callback_that_writes_into_what_it_gets_does_not_change_the_run(engine, algorithm: str):
    def spoil(record: Record) -> None:
        for value in (record.x, record.aggregate, *record.server, record.state.server.x):
            if isinstance(value, Tensor):
                value.zero_()
        record.metrics.clear()

    module, federation = made(network), labels()
    expected = run(module, federation, engine, algorithm=algorithm)
    assert torch.equal(run(module, federation, engine, algorithm=algorithm, on_round=spoil), expected)


class Spoiling(Callback):
    def on_round(self, record: Record) -> None:
        for value in (record.x, record.aggregate, record.state.server.x):
            value.zero_()


def test_a_callback_of_a_run_on_disk_does_not_change_it_either(tmp_path: Path):
    resolved = resolve(None, ["algorithm=adabest", "data.clients=5", "cohort=2", "rounds=3", "model=logistic"])
    alone, spoilt = (start(resolved, tmp_path / name, own) for name, own in (("a", []), ("b", [Spoiling()])))
    columns = ("train_loss", "norm_x", "test_loss")
    assert [[row[c] for c in columns] for row in alone.rows] == [[row[c] for c in columns] for row in spoilt.rows]


def test_a_callback_that_raises_shows_its_own_traceback():
    def mistaken(record: Record) -> None:
        record.no_such_field  # noqa: B018

    with pytest.raises(AttributeError, match="no_such_field"):
        run(made(network), labels(), SINGLE, on_round=mistaken)


def test_the_number_of_threads_is_as_it_was_after_a_run():
    before = torch.get_num_threads()
    run(made(network), labels(), SINGLE)
    assert torch.get_num_threads() == before
