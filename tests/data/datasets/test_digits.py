from __future__ import annotations

import hashlib
from importlib.resources import files

import numpy as np
import torch

from driftless.data.datasets import digits


def test_digits_are_the_1797_digits_of_the_repository():
    examples = digits.load()
    assert examples.test is not None
    assert examples.inputs.shape == (1437, 1, 8, 8)
    assert examples.test[0].shape == (360, 1, 8, 8)
    assert examples.inputs.dtype == torch.float32
    assert examples.targets.dtype == torch.int64
    assert (examples.inputs.min(), examples.inputs.max()) == (0, 1)
    counts = np.bincount(np.concatenate([examples.targets, examples.test[1]]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_pixels_and_labels_are_those_of_the_source_file():
    with (files("driftless.data") / "embedded" / "digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        content = stored["images"].tobytes() + stored["labels"].tobytes()
    # computed from the comma-separated file: all pixels as bytes in the order of the file, then all labels
    assert hashlib.sha256(content).hexdigest() == "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_content_and_the_split_of_digits_never_change():
    examples = digits.load()
    assert examples.test is not None
    digest = hashlib.sha256()
    for inputs, targets in ((examples.inputs, examples.targets), examples.test):
        digest.update((inputs * 16).to(torch.uint8).numpy().tobytes())
        digest.update(targets.to(torch.uint8).numpy().tobytes())
    assert digest.hexdigest() == "cf0ea2b93c83207e926094aa0ef4b009e8625caf456181b52f38e2692a4da47b"


def test_the_split_of_digits_is_stratified():
    examples = digits.load()
    assert examples.test is not None
    train, test = np.bincount(examples.targets), np.bincount(examples.test[1])
    assert np.abs(test - (train + test) * 360 / 1797).max() < 1
