from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from driftless.data.federation import Federation

CLIENTS = [(torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 2])), (torch.ones(2, 2), torch.tensor([0, 0]))]


def small(**options: Any) -> Federation:
    return Federation.from_clients(CLIENTS, test=CLIENTS[0], classes=3, **options)


def test_it_is_a_sha_256_of_the_data_and_not_of_how_they_were_given():
    expected = small().fingerprint
    assert len(expected) == 64
    inputs, targets = (torch.cat(parts) for parts in zip(*CLIENTS, strict=True))
    order = [3, 0, 4, 1, 2]
    shuffled = Federation.from_assignment(
        inputs[order].numpy(), targets[order].tolist(), [1, 0, 1, 0, 0], 2, test=CLIENTS[0], name="other"
    )
    assert shuffled.fingerprint == expected
    assert small(client_names=["a", "b"]).fingerprint == expected
    strided = inputs.T.contiguous().T
    assert not strided.is_contiguous()
    assert replace(small(), inputs=strided).fingerprint == expected


def changed(values: torch.Tensor) -> torch.Tensor:
    values = values.clone()
    values.view(-1)[-1] = 2
    return values


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": changed(small().inputs)},
        {"targets": changed(small().targets)},
        {"inputs": small().inputs.double()},
        {"inputs": small().inputs.view(5, 2, 1)},
        {"inputs": (small().inputs,)},
        {"inputs": {"x": small().inputs}},
        {"offsets": np.array([0, 2, 5])},
        {"offsets": np.array([0, 3, 5, 5])},
        {"test": None},
        {"test": (changed(CLIENTS[0][0]), CLIENTS[0][1])},
        {"classes": 4},
        {"client_test": replace(small(), test=None)},
        {"validation": replace(small(), test=None)},
    ],
    ids=lambda change: ", ".join(change),
)
def test_whatever_changes_the_data_changes_it(change: dict[str, Any]):
    assert replace(small(), **change).fingerprint != small().fingerprint


def test_validation_and_test_clients_are_told_apart():
    part = replace(small(), test=None)
    assert replace(small(), client_test=part).fingerprint != replace(small(), validation=part).fingerprint


def test_the_order_of_named_inputs_does_not_matter_and_their_names_do():
    a, b, targets = torch.zeros(2, 1), torch.ones(2, 1), torch.tensor([0, 1])
    first, again, swapped = (
        Federation.from_clients([(inputs, targets)]).fingerprint
        for inputs in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": b, "b": a})
    )
    assert first == again
    assert first != swapped


def test_it_is_the_same_in_every_process_and_on_every_machine():
    assert small().fingerprint == "932bff15681f8864d2562809ff9ebd5826f2a8f85b28408a0736fb4c02dde643"
