from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

import driftless
from data import write_files as write
from driftless.data.datasets import femnist
from driftless.errors import InputError

RNG = np.random.default_rng(0)


def page(n: int) -> np.ndarray:
    """Dark strokes on white, as published; float32 [n, 28, 28]."""
    images = np.ones((n, 28, 28), dtype=np.float32)
    images[:, 10:15, 5:9] = RNG.random((n, 5, 4), dtype=np.float32) / 2
    return images


WRITERS = {
    "train": {"w0": (page(3), [0, 61, 9]), "w1": (page(2), [10, 3])},
    "test": {"w1": (page(1), [3]), "w9": (page(1), [4])},
}


def in_leaf(folder: Path) -> None:
    for part, writers in WRITERS.items():
        users = {name: (images.reshape(-1, 784).tolist(), labels) for name, (images, labels) in writers.items()}
        write.leaf(folder / "femnist" / part / "all.json", users)


def in_h5(folder: Path) -> None:
    for part, writers in WRITERS.items():
        clients = {name: {"pixels": images, "label": labels} for name, (images, labels) in writers.items()}
        write.h5(folder / f"fed_emnist_{part}.h5", clients)


def in_database(folder: Path) -> None:
    splits = {
        f"all_{part}": {
            name: [{"pixels": image, "label": label} for image, label in zip(images, labels, strict=True)]
            for name, (images, labels) in writers.items()
        }
        for part, writers in WRITERS.items()
    }
    path = write.database(folder / "emnist_all.sqlite", splits)
    (folder / "emnist_all.sqlite.lzma").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("form", [in_leaf, in_h5, in_database])
def test_every_form_gives_the_same_images_with_ink_as_one(folder: Path, form):
    assert not femnist.is_here()
    form(folder)
    assert femnist.is_here()
    federation = driftless.load("femnist")
    assert federation.client_names == ("w0", "w1")
    assert federation.classes == 62
    assert federation.input_shape == (1, 28, 28)
    assert federation.targets.tolist() == [0, 61, 9, 10, 3]
    expected = 1 - np.concatenate([images for images, _ in WRITERS["train"].values()])[:, None]
    np.testing.assert_allclose(federation.inputs.numpy(), expected, atol=1e-6)
    assert federation.inputs[:, :, 0, 0].eq(0).all()
    assert federation.test is not None
    assert federation.test[0].mean() < 0.5
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [0, 1]  # w9 has no training data: its image belongs to nobody


def test_images_that_have_ink_as_one_already_stay_so(folder: Path):
    images = 1 - page(5)
    write.leaf(folder / "femnist.json", {"w": (images.reshape(5, 784).tolist(), [1, 2, 3, 4, 5])})
    federation = driftless.load("femnist")
    np.testing.assert_allclose(federation.inputs.numpy()[:, 0], images[:4], atol=1e-6)


def test_of_a_single_file_every_fifth_image_of_a_writer_is_for_the_test(folder: Path):
    users = {
        "v": (page(4).reshape(4, 784).tolist(), [1, 2, 3, 4]),
        "w": (page(11).reshape(11, 784).tolist(), range(11)),
    }
    write.leaf(folder / "femnist.json.gz", users)
    federation = driftless.load("femnist")
    assert federation.sizes.tolist() == [4, 9]
    assert federation.client(1)[1].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 10]
    assert federation.test is not None
    assert federation.test[1].tolist() == [4, 9]


def test_digits_only_keeps_ten_classes_and_drops_writers_without_digits(folder: Path):
    in_h5(folder)
    federation = driftless.load("femnist", digits_only=True)
    assert federation.classes == 10
    assert federation.targets.tolist() == [0, 9, 3]
    assert federation.inputs.dtype == torch.float32


def test_the_source_can_be_chosen(folder: Path):
    in_h5(folder)
    with pytest.raises(InputError, match=r"LEAF's files of data set 'femnist' are not here; make them with"):
        driftless.load("femnist", source="leaf")
    assert driftless.load("femnist", source="tff").clients == 2
    with pytest.raises(InputError, match="source must be one of 'auto', 'leaf', 'tff', got 'web'"):
        driftless.load("femnist", source="web")


def test_without_files_the_error_says_what_to_get(folder: Path):
    with pytest.raises(InputError, match=r"needs emnist_all\.sqlite\.lzma, which is not here"):
        driftless.load("femnist")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[0.0] * 783], [1], "is not 784 numbers and one label for each image; make the file again with LEAF"),
        ([["a"] * 784], [1], "is not 784 numbers"),
        ([[0.0] * 784], [62], "writer 'w' of data set 'femnist' has labels from 62 to 62; FEMNIST's are 0..61"),
    ],
)
def test_wrong_images_and_labels_name_the_writer(folder: Path, x, y, message: str):
    write.leaf(folder / "femnist.json", {"w": (x, y)})
    with pytest.raises(InputError) as error:
        driftless.load("femnist")
    assert message in str(error.value)
    assert "'w'" in str(error.value)


def test_writers_without_images_are_left_out_and_only_such_writers_are_an_error(folder: Path):
    write.leaf(folder / "femnist.json", {"empty": ([], []), "w": (page(1).reshape(1, 784).tolist(), [1])})
    assert driftless.load("femnist").client_names == ("w",)
    write.leaf(folder / "femnist.json", {"empty": ([], [])})
    with pytest.raises(InputError, match="have no training examples"):
        driftless.load("femnist")
