"""The contract of algorithm.py, for every algorithm: pure methods, frozen hyper-parameters, states of one structure."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from driftless import ALGORITHMS, AdaptiveClipping
from laws.drive import SIZE, drive
from laws.entries import ENTRIES, NAMES
from laws.trees import structure, tensors

every_algorithm = pytest.mark.parametrize("name", NAMES)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])

METHODS = {"init_server", "init_client", "broadcast", "init_local", "direction", "upload", "update", "inference"}


def tensors_among(arguments: tuple[Any, ...]) -> list[Tensor]:
    """All tensors of the arguments of a method; Round and Facts also hold numbers and slices."""
    found: list[Tensor] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            found.append(argument)
        elif isinstance(argument, tuple):
            found += tensors_among(argument)
    return found


def test_every_algorithm_of_the_library_is_under_the_laws():
    assert set(ALGORITHMS) <= set(NAMES)
    assert {type(a) for a in ENTRIES.values()} == {*ALGORITHMS.values(), AdaptiveClipping}


@every_algorithm
def test_every_method_leaves_its_inputs_unchanged(name: str):
    algorithm, called = ENTRIES[name], set[str]()

    def call(method: str, *arguments: Any) -> Any:
        called.add(method)
        given = tensors_among(arguments)
        before = [(leaf.clone(), leaf._version) for leaf in given]
        result = getattr(algorithm, method)(*arguments)
        for leaf, (value, version) in zip(given, before, strict=True):
            assert torch.equal(leaf, value), f"{method} changed one of its inputs"
            assert leaf._version == version, f"{method} wrote into one of its inputs"
        return result

    drive(algorithm, torch.float64, call)
    assert called == METHODS


@every_algorithm
def test_an_algorithm_is_declared_as_a_frozen_dataclass(name: str):
    cls = type(ENTRIES[name])
    assert "__dataclass_params__" in vars(cls)
    assert cls.__dataclass_params__.frozen


@every_algorithm
def test_calling_the_methods_does_not_change_the_algorithm(name: str):
    algorithm = ENTRIES[name]
    before = pickle.dumps(algorithm)
    drive(algorithm, torch.float64)
    assert pickle.dumps(algorithm) == before


@both_dtypes
@every_algorithm
def test_states_messages_and_uploads_keep_their_structure_from_round_to_round(name: str, dtype: torch.dtype):
    algorithm, seen = ENTRIES[name], dict[str, Any]()

    def keeps(what: str, tree: Any) -> None:
        assert structure(tree) == seen.setdefault(what, structure(tree)), f"the structure of the {what} state changed"

    def call(method: str, *arguments: Any) -> Any:
        result = getattr(algorithm, method)(*arguments)
        if method in ("init_server", "update"):
            keeps("server", result)
        elif method == "init_client":
            keeps("client", result)
        elif method == "broadcast":
            keeps("message", result)
        elif method == "init_local":
            keeps("local", result)
        elif method == "direction":
            keeps("vector", result[0])
            keeps("local", result[1])
        elif method == "upload":
            keeps("upload", result[0])
            keeps("client", result[1])
        else:
            keeps("vector", result)
        return result

    drive(algorithm, dtype, call)
    assert set(seen) == {"server", "client", "message", "local", "vector", "upload"}
    assert seen["vector"] == ((SIZE,), dtype)


@both_dtypes
@every_algorithm
def test_states_messages_and_uploads_hold_only_tensors_of_the_models_dtype(name: str, dtype: torch.dtype):
    algorithm = ENTRIES[name]

    def call(method: str, *arguments: Any) -> Any:
        result = getattr(algorithm, method)(*arguments)
        for path, leaf in tensors(result).items():  # fails on None and on anything that is not a tensor
            assert leaf.dtype == dtype, f"{path} of {method}"
            assert not leaf.requires_grad, f"{path} of {method}"
            assert not leaf.isnan().any(), f"{path} of {method}"
        return result

    drive(algorithm, dtype, call)


@every_algorithm
def test_the_message_carries_x_and_the_upload_carries_the_clients_progress(name: str):
    algorithm, uploads = ENTRIES[name], 0

    def call(method: str, *arguments: Any) -> Any:
        nonlocal uploads
        result = getattr(algorithm, method)(*arguments)
        if method == "broadcast":
            assert torch.equal(result.x, arguments[0].x)
        elif method == "upload":
            uploads += 1
            y, _, msg, _, _ = arguments
            moved = y - msg.x
            if isinstance(algorithm, AdaptiveClipping):
                length = min(1.0, float(msg.rho / moved.norm()))
                torch.testing.assert_close(result[0].delta, length * moved, rtol=1e-14, atol=1e-14)
            else:
                assert torch.equal(result[0].delta, moved)
        return result

    drive(algorithm, torch.float64, call)
    assert uploads == 9


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(ENTRIES[name], AdaptiveClipping)])
def test_the_clipped_entries_clip_some_uploads_and_leave_others(name: str):
    """Otherwise the laws would see only one of the two branches."""
    algorithm, below = ENTRIES[name], set[float]()

    def call(method: str, *arguments: Any) -> Any:
        result = getattr(algorithm, method)(*arguments)
        if method == "upload":
            below.add(float(result[0].below))
        return result

    drive(algorithm, torch.float64, call)
    assert below == {0.0, 1.0}


@every_algorithm
def test_an_algorithm_states_its_paper_and_how_it_averages(name: str):
    algorithm = ENTRIES[name]
    assert len(algorithm.citation) > 10
    assert algorithm.weighting in ("examples", "uniform")
    assert algorithm.full_gradient in ("", "after", "before")


@every_algorithm
def test_fields_that_are_averaged_uniformly_exist_in_the_upload(name: str):
    algorithm, paths = ENTRIES[name], set[str]()

    def call(method: str, *arguments: Any) -> Any:
        result = getattr(algorithm, method)(*arguments)
        if method == "upload":
            paths.update(tensors(result[0]))
        return result

    drive(algorithm, torch.float64, call)
    parts = {part for path in paths for part in path.split(".")}
    assert algorithm.uniform <= parts


@pytest.mark.parametrize("name", [name for name in NAMES if getattr(ENTRIES[name], "server_lr", None) is not None])
def test_another_server_lr_changes_nothing_else(name: str):
    algorithm = ENTRIES[name]
    other = algorithm.with_server_lr(0.123)
    assert type(other) is type(algorithm)
    assert other.server_lr == 0.123
    assert other.with_server_lr(algorithm.server_lr) == algorithm
