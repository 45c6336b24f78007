"""MNIST from small files in the real format; and the real ones, where they are found."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from data.idx_files import NAMES, as_idx, small_set, write_idx_files
from data.write_files import need
from driftless.data import DATASETS, fetch
from driftless.data.datasets.mnist import FASHION_MNIST, MNIST
from driftless.data.formats.idx import read_idx
from driftless.data.preprocessing.images import normalized
from driftless.errors import InputError


@pytest.mark.parametrize("pattern", ["{}.gz", "{}", "mnist_{}.gz", "mnist/{}.gz", "MNIST/raw/{}", "mnist/{}"])
def test_mnist_is_read_from_every_form_it_is_passed_on_in(pattern: str, without_sums: Path):
    parts = small_set()
    write_idx_files(without_sums, parts, pattern)
    examples = MNIST.load(normalize="none")
    assert examples.test is not None
    assert examples.inputs.shape == (30, 1, 28, 28)
    assert examples.inputs.dtype == torch.float32
    assert examples.targets.dtype == torch.int64
    for tensor, values in zip((examples.inputs, examples.targets, *examples.test), parts, strict=True):
        scale = 255 if values.ndim == 3 else 1
        np.testing.assert_allclose(tensor.reshape(values.shape).numpy() * scale, values, atol=1e-4)
    assert examples.classes == 10
    assert (DATASETS["mnist"].files, DATASETS["digits"].files) == ("here", "included")


def test_another_set_under_the_names_of_mnist_is_refused(folders: Path):
    write_idx_files(folders / "data", small_set(), "{}.gz")
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is not the published file of data set 'mnist'"):
        MNIST.load()
    with pytest.raises(InputError, match=r"put the right one into the folder 'fashion-mnist' of DRIFTLESS_DATA"):
        FASHION_MNIST.load()


def test_the_usual_normalisation_is_that_of_the_pixels_in_0_to_1(without_sums: Path):
    write_idx_files(without_sums, small_set(), "{}.gz")
    plain, usual = MNIST.load(normalize="none"), MNIST.load()
    torch.testing.assert_close(usual.inputs, (plain.inputs - 0.1307) / 0.3081)


def damage(folder: Path, name: str, kind: str) -> None:
    path = folder / f"{name}.gz"
    content = gzip.decompress(path.read_bytes())
    damaged = {
        "cut": lambda: path.read_bytes()[:-20],
        "short": lambda: gzip.compress(content[:-1]),
        "header": lambda: gzip.compress(content[:6]),
        "magic": lambda: gzip.compress(b"\0\0\x0d\x03" + content[4:]),
        "empty": lambda: b"",
        "fewer": lambda: gzip.compress(as_idx(np.zeros(7))),
        "range": lambda: gzip.compress(as_idx(np.full(30, 10))),
    }[kind]()
    path.write_bytes(damaged)


@pytest.mark.parametrize(
    ("name", "kind", "complaint"),
    [
        (NAMES[0], "cut", "Compressed file ended"),
        (NAMES[0], "short", "announces 23536 bytes, it has 23535"),
        (NAMES[0], "header", "cannot be read"),
        (NAMES[0], "magic", "begins with 00000803, not 00000d03"),
        (NAMES[1], "empty", "begins with 00000801, not "),
        (NAMES[1], "fewer", r"labels of shape \[7\] for 30 images"),
        (NAMES[1], "range", "labels from 10 to 10, the data set's go from 0 to 9"),
    ],
)
def test_a_damaged_idx_file_names_the_file_and_the_remedy(name: str, kind: str, complaint: str, without_sums: Path):
    write_idx_files(without_sums, small_set(), "{}.gz")
    damage(without_sums, name, kind)
    with pytest.raises(InputError, match=complaint) as caught:
        MNIST.load()
    assert str(without_sums / f"{name}.gz") in str(caught.value)
    assert "delete" in str(caught.value)


def test_the_labels_of_the_real_mnist_have_the_known_counts(real: Path):
    labels = read_idx(need(real / "mnist_train-labels-idx1-ubyte.gz"), 1)
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_the_real_test_images_of_mnist_pass_their_sum(real: Path):
    need(real / "mnist_t10k-images-idx3-ubyte.gz")
    path = fetch.obtain("mnist", *MNIST.forms_of("t10k-images-idx3-ubyte"))
    inputs = normalized(read_idx(path, 3)[:, None], MNIST.statistics, "dataset")
    assert inputs.shape == (10_000, 1, 28, 28)
    assert inputs.mean().abs() < 0.01
