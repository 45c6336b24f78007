from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from data.idx_files import small_set, write_idx_files
from driftless.data import DATASETS, fetch, load
from driftless.data.datasets.mnist import FASHION_MNIST, MNIST
from driftless.data.formats.idx import read_idx
from driftless.errors import InputError


def test_fashion_mnist_is_read_from_debians_folder(without_sums: Path):
    write_idx_files(without_sums.parent / "system" / "fashion-mnist", small_set(), "{}.gz")
    assert FASHION_MNIST.load().inputs.shape == (30, 1, 28, 28)
    assert not MNIST.is_here()


def test_sets_with_the_same_file_names_are_told_apart_by_folder(without_sums: Path):
    for seed, name in enumerate(("mnist", "fashion-mnist")):
        write_idx_files(without_sums, small_set(seed), f"{name}/{{}}.gz")
    assert not torch.equal(MNIST.load(normalize="none").inputs, FASHION_MNIST.load(normalize="none").inputs)


def test_offline_the_missing_file_and_the_advice_are_named(without_sums: Path):
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz, which is not here.*dataset-fashion-mnist"):
        load("fashion-mnist")
    assert DATASETS["fashion-mnist"].files == "downloads 31 MB"


@pytest.mark.skipif(not (fetch.SYSTEM / "fashion-mnist").exists(), reason="Debian's package is not installed")
def test_debians_labels_of_fashion_mnist_pass_their_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path))
    monkeypatch.delenv("DRIFTLESS_DATA", raising=False)
    path = fetch.obtain("fashion-mnist", *FASHION_MNIST.forms_of("train-labels-idx1-ubyte"))
    assert np.bincount(read_idx(path, 1)).tolist() == [6000] * 10
