"""CIFAR-100 from small files in the real formats; and the real labels, where they are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.cifar_files import binary_members, python_members, small_100, write_mosaics, write_tar
from data.write_files import need
from driftless.data.datasets import cifar100
from driftless.data.formats.label_file import npz_labels
from driftless.errors import InputError


@pytest.mark.parametrize("form", ["python", "binary", "mosaics"])
def test_cifar100_has_its_fine_and_its_coarse_labels_from_every_form(form: str, without_sums: Path):
    small, repeats = small_100(), 1
    if form == "python":
        keys = {"labels": "fine_labels", "coarse": "coarse_labels"}
        write_tar(without_sums / "cifar-100-python.tar.gz", python_members(small, keys))
    elif form == "binary":
        write_tar(without_sums / "cifar-100-binary.tar.gz", binary_members(small, ["coarse", "labels"]))
    else:
        write_mosaics(without_sums, small)
        repeats = 2
    assert cifar100.is_here()
    examples = cifar100.load(normalize="none")
    assert examples.test is not None
    assert examples.coarse is not None
    expected = np.tile(small.images["train"], (repeats, 1, 1, 1))
    np.testing.assert_allclose(examples.inputs.numpy() * 255, expected, atol=1e-4)
    np.testing.assert_allclose(examples.test[0].numpy() * 255, small.images["test"], atol=1e-4)
    assert examples.targets.tolist() == np.tile(small.labels["train"], repeats).tolist()
    assert examples.test[1].tolist() == small.labels["test"].tolist()
    assert examples.coarse.tolist() == np.tile(small.coarse["train"], repeats).tolist()
    assert examples.classes == 100


def test_mosaics_without_labels_say_what_is_missing(without_sums: Path):
    write_mosaics(without_sums, small_100())
    (without_sums / "cifar100_labels.npz").unlink()
    assert not cifar100.is_here()
    with pytest.raises(InputError, match=r"needs cifar100_labels.npz, which is not here.*cifar-100-python.tar.gz"):
        cifar100.load()


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({"coarse_train": np.zeros(0)}, r"has no array 'coarse_train' \(it has fine_train, fine_test, coarse_test\)"),
        ({"fine_test": np.zeros(99)}, r"labels of shape \[99\] for 100 images"),
        ({"fine_train": np.full(200, 100)}, "labels from 100 to 100, the data set's go from 0 to 99"),
        ({"coarse_test": np.full(100, 20)}, "labels from 20 to 20, the data set's go from 0 to 19"),
    ],
)
def test_wrong_labels_of_mosaics_name_their_file(labels: dict[str, np.ndarray], complaint: str, without_sums: Path):
    write_mosaics(without_sums, small_100(), **labels)
    with pytest.raises(InputError, match=complaint) as caught:
        cifar100.load()
    assert str(without_sums / "cifar100_labels.npz") in str(caught.value)


def test_a_mosaic_of_another_size_is_refused(without_sums: Path):
    write_mosaics(without_sums, small_100())
    Image.new("RGB", (3200, 40)).save(without_sums / "cifar100_train_b.webp", lossless=True, method=0, quality=0)
    with pytest.raises(InputError, match=r"cifar100_train_b.webp cannot be read: it has 3200x40 pixels"):
        cifar100.load()


def test_the_real_labels_of_cifar100_have_500_of_each_class_and_2500_of_each_coarse_one(real: Path):
    path = need(real / "cifar100_labels.npz")
    fine, coarse, test = npz_labels(path, "fine_train", "coarse_train", "fine_test")
    assert np.bincount(fine).tolist() == [500] * 100
    assert np.bincount(coarse).tolist() == [2500] * 20
    assert np.bincount(test).tolist() == [100] * 100
    assert len({(int(f), int(c)) for f, c in zip(fine, coarse, strict=True)}) == 100  # one coarse class for each
