"""MNIST, Fashion-MNIST and EMNIST from small files in the real formats; and the real ones, where they are here."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driftless.data.datasets.images import Scale, as_inputs

from driftless.data import DATASETS, fetch, load
from driftless.data.datasets import emnist, fashion_mnist, idx, images, mnist
from driftless.errors import InputError

SHARED = Path(os.environ.get("DRIFTLESS_DATA") or Path(__file__).parents[4] / "shared" / "data")

NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def as_idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def small_set(seed: int = 0, first_label: int = 0, classes: int = 10) -> list[np.ndarray]:
    """Images and labels of a training and a test set, in the order of NAMES."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (classes * 3, classes):
        parts += [rng.integers(0, 256, (n, 28, 28)), first_label + np.arange(n) % classes]
    return parts


@pytest.fixture
def without_sums(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, where files with the real names and other content are accepted; nothing is downloaded."""
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    for module in (mnist, fashion_mnist):
        monkeypatch.setattr(
            module, "FILES", [tuple(replace(f, unpacked=None) for f in forms) for forms in module.FILES]
        )
    monkeypatch.setattr(emnist, "ARCHIVE", tuple(replace(file, md5=None) for file in emnist.ARCHIVE))
    monkeypatch.setattr(emnist, "_SUMS", {})
    return folders / "data"


def write(folder: Path, parts: list[np.ndarray], pattern: str) -> None:
    for name, values in zip(NAMES, parts, strict=True):
        path = folder / pattern.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = as_idx(values)
        path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("pattern", ["{}.gz", "{}", "mnist_{}.gz", "mnist/{}.gz", "MNIST/raw/{}", "mnist/{}"])
def test_mnist_is_read_from_every_form_it_is_passed_on_in(pattern: str, without_sums: Path):
    parts = small_set()
    write(without_sums, parts, pattern)
    examples = mnist.load(normalize="none")
    assert examples.test is not None
    assert examples.inputs.shape == (30, 1, 28, 28)
    assert examples.inputs.dtype == torch.float32
    assert examples.targets.dtype == torch.int64
    for tensor, values in zip((examples.inputs, examples.targets, *examples.test), parts, strict=True):
        scale = 255 if values.ndim == 3 else 1
        np.testing.assert_allclose(tensor.reshape(values.shape).numpy() * scale, values, atol=1e-4)
    assert examples.classes == 10
    assert "LeCun" in examples.source
    assert (DATASETS["mnist"].files, DATASETS["digits"].files) == ("here", "included")


def test_fashion_mnist_is_read_from_debians_folder(without_sums: Path):
    write(without_sums.parent / "system" / "fashion-mnist", small_set(), "{}.gz")
    assert fashion_mnist.load().inputs.shape == (30, 1, 28, 28)
    assert not mnist.is_here()


def test_sets_with_the_same_file_names_are_told_apart_by_folder(without_sums: Path):
    for seed, name in enumerate(("mnist", "fashion-mnist")):
        write(without_sums, small_set(seed), f"{name}/{{}}.gz")
    assert not torch.equal(mnist.load(normalize="none").inputs, fashion_mnist.load(normalize="none").inputs)


def test_another_set_under_the_names_of_mnist_is_refused(folders: Path):
    write(folders / "data", small_set(), "{}.gz")
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is not the published file of data set 'mnist'"):
        mnist.load()
    with pytest.raises(InputError, match=r"put the right one into the folder 'fashion-mnist' of DRIFTLESS_DATA"):
        fashion_mnist.load()


def test_offline_the_missing_file_and_the_advice_are_named(without_sums: Path):
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz, which is not here.*dataset-fashion-mnist"):
        load("fashion-mnist")
    assert DATASETS["fashion-mnist"].files == "downloads 31 MB"
    assert not emnist.is_here()


def test_the_usual_normalisation_is_that_of_the_pixels_in_0_to_1(without_sums: Path):
    write(without_sums, small_set(), "{}.gz")
    plain, usual = mnist.load(normalize="none"), mnist.load()
    torch.testing.assert_close(usual.inputs, (plain.inputs - 0.1307) / 0.3081)


def test_a_central_crop_and_the_standardisation_of_each_image():
    pixels = np.random.default_rng(0).integers(0, 256, (images.CHUNK + 3, 3, 8, 6)).astype(np.uint8)
    pixels[1] = 77  # of one colour
    inputs = as_inputs(pixels, Scale((0.5,) * 3, (0.5,) * 3), "image", crop=4)
    assert inputs.shape == (images.CHUNK + 3, 3, 4, 4)
    expected = pixels[:, :, 2:6, 1:5] / 255
    means = expected.mean((1, 2, 3), keepdims=True)
    stds = expected.std((1, 2, 3), keepdims=True)
    stds[1] = 1 / math.sqrt(48)
    np.testing.assert_allclose(inputs.numpy(), (expected - means) / stds, atol=1e-4)
    assert inputs[1].abs().max() < 1e-5
    whole = as_inputs(pixels, Scale((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), "dataset")
    np.testing.assert_allclose(whole[-1, 2].numpy(), (pixels[-1, 2] / 255 - 0.3) / 0.7, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnist", {"normalize": True}, "normalize must be one of 'dataset', 'image', 'none', got True"),
        ("cifar10", {"crop": 33}, "crop=33 is larger than the images, 32x32"),
        ("cifar100", {"crop": 0}, "crop must be an integer >= 1, got 0"),
    ],
)
def test_a_wrong_option_is_told_before_a_file_is_looked_for(
    name: str, options: dict[str, Any], message: str, without_sums: Path
):
    with pytest.raises(InputError, match=message):
        load(name, **options)


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
    write(without_sums, small_set(), "{}.gz")
    damage(without_sums, name, kind)
    with pytest.raises(InputError, match=complaint) as caught:
        mnist.load()
    assert str(without_sums / f"{name}.gz") in str(caught.value)
    assert "delete" in str(caught.value)


LETTERS = [
    f"emnist-letters-{split}-{kind}-ubyte" for split in ("train", "test") for kind in ("images-idx3", "labels-idx1")
]


def write_letters(folder: Path, form: str) -> list[np.ndarray]:
    parts = small_set(first_label=1, classes=26)
    contents = {name: as_idx(values) for name, values in zip(LETTERS, parts, strict=True)}
    if form.endswith(".zip"):
        with zipfile.ZipFile(folder / form, "w") as archive:
            archive.writestr("gzip/emnist-digits-mapping.txt", "0 48")
            for name, content in contents.items():
                archive.writestr(f"gzip/{name}.gz", gzip.compress(content, 1))
    else:
        for name, content in contents.items():
            (folder / form.format(name)).write_bytes(gzip.compress(content, 1) if form.endswith("gz") else content)
    return parts


@pytest.mark.parametrize("form", ["gzip.zip", "emnist.zip", "{}.gz", "{}"])
def test_the_letters_are_upright_and_numbered_from_zero(form: str, without_sums: Path):
    parts = write_letters(without_sums, form)
    assert emnist.is_here()
    letters = emnist.load_letters(normalize="none")
    assert letters.test is not None
    assert letters.inputs.shape == (78, 1, 28, 28)
    assert (letters.classes, int(letters.targets.min()), int(letters.targets.max())) == (26, 0, 25)
    stored = torch.from_numpy(parts[0])
    torch.testing.assert_close(letters.inputs[:, 0] * 255, stored.mT.to(torch.float32))  # columns became rows
    first_ten = emnist.load_l(normalize="none")
    assert first_ten.test is not None
    assert first_ten.classes == 10
    assert first_ten.targets.tolist() == list(range(10)) * 3
    assert torch.equal(first_ten.inputs, letters.inputs[letters.targets < 10])
    assert torch.equal(first_ten.test[0], letters.test[0][:10])


def test_a_damaged_archive_of_letters_names_the_file_and_the_remedy(without_sums: Path):
    write_letters(without_sums, "gzip.zip")
    path = without_sums / "gzip.zip"
    whole = path.read_bytes()
    middle = whole.index(b"train-images") + 2000
    for content in (whole[: len(whole) // 2], whole[:middle] + b"damage" + whole[middle + 6 :]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"gzip.zip cannot be read: .* delete it and get it again"):
            emnist.load_l()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(InputError, match=r"gzip.zip cannot be read: it does not have emnist-letters-train-images"):
        emnist.load_l()


def test_labels_that_count_from_zero_are_not_those_of_the_letters(without_sums: Path):
    for name, values in zip(LETTERS, small_set(classes=26), strict=True):
        (without_sums / name).write_bytes(as_idx(values))
    with pytest.raises(InputError, match=r"labels from -1 to 24, the data set's go from 0 to 25"):
        emnist.load_letters()


# --- the real files, where they are here ---


@pytest.mark.skipif(not (SHARED / "mnist_train-labels-idx1-ubyte.gz").exists(), reason="no MNIST here")
def test_the_labels_of_the_real_mnist_have_the_known_counts():
    labels = idx.read(SHARED / "mnist_train-labels-idx1-ubyte.gz", 1)
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


@pytest.mark.skipif(not (SHARED / "mnist_t10k-images-idx3-ubyte.gz").exists(), reason="no MNIST here")
def test_the_real_test_images_of_mnist_pass_their_sum(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRIFTLESS_DATA", str(SHARED))
    path = fetch.obtain("mnist", *mnist.FILES[2])
    inputs = as_inputs(idx.read(path, 3)[:, None], mnist.SCALE, "dataset")
    assert inputs.shape == (10_000, 1, 28, 28)
    assert inputs.mean().abs() < 0.01


@pytest.mark.skipif(not (fetch.SYSTEM / "fashion-mnist").exists(), reason="Debian's package is not installed")
def test_debians_labels_of_fashion_mnist_pass_their_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path))
    monkeypatch.delenv("DRIFTLESS_DATA", raising=False)
    path = fetch.obtain("fashion-mnist", *fashion_mnist.FILES[1])
    assert np.bincount(idx.read(path, 1)).tolist() == [6000] * 10
