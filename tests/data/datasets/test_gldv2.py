from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import driftless
from data.photograph_files import COLOURS, TEST, TRAIN, landmarks
from driftless.data.datasets import photographs
from driftless.errors import InputError


def test_the_images_of_a_user_are_one_client(folder: Path):
    assert not photographs.GLDV2.is_here()
    landmarks(folder)
    assert photographs.GLDV2.is_here()
    federation = driftless.load("gldv2", size=4)
    assert federation.client_names == ("7", "3")
    assert federation.classes == 3
    assert federation.targets.tolist() == [0, 1, 2]
    assert federation.input_shape == (3, 4, 4)
    assert federation.test is not None
    assert federation.test[1].tolist() == [1]
    mean, deviation = np.array(photographs.IMAGENET_MEAN), np.array(photographs.IMAGENET_STD)
    for row, name in zip(federation.inputs, ("aa1", "cc3", "bb2"), strict=True):
        pixels = row.permute(1, 2, 0).numpy() * deviation + mean
        np.testing.assert_allclose(pixels, np.broadcast_to(np.array(COLOURS[name]) / 255, (4, 4, 3)), atol=0.02)


def test_the_middle_square_of_an_image_is_kept(folder: Path):
    own = landmarks(folder)
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 255
    (own / "images" / "a" / "a" / "1" / "aa1.jpg").unlink()
    Image.fromarray(wide).save(own / "images" / "aa1.png")
    assert driftless.load("gldv2", size=10).inputs[0].min() > 1.9  # white, normalised


def test_limited_users_keep_all_classes_and_other_colours_are_converted(folder: Path):
    own = landmarks(folder, train="class,user_id,image_id\n0,7,aa1\n2,3,bb2.jpg\n1,7,x/cc3.jpg\n")
    Image.new("L", (5, 5), 255).save(own / "images" / "a" / "a" / "1" / "aa1.jpg")
    federation = driftless.load("gldv2", size=2, limit_users=1)
    assert federation.client_names == ("7",)
    assert federation.classes == 3
    assert federation.inputs[0].min() > 1.9


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (
            TRAIN + "3,zz9,0\n3,yy8,0\n",
            TEST,
            "2 of the 5 images that {}/federated_train.csv names are not below {}/images",
        ),
        (TRAIN + "3,zz9,0\n", TEST, "the first is 'zz9'; put them there"),
        (TRAIN, "image_id,class\nq,0\n", "1 of the 1 images that {}/test.csv names"),
        (
            "user,image,class\n",
            TEST,
            "{}/federated_train.csv has no column user_id and image_id, only user, image, class",
        ),
        (TRAIN, "image_id\n", "{}/test.csv has no column class, only image_id; it needs image_id, class"),
        (TRAIN + ",aa1,0\n", TEST, "line 5 of {}/federated_train.csv has"),
        (TRAIN + "7,aa1,dog\n", TEST, "the class a number from 0"),
        (TRAIN + "7,aa1\n", TEST, "line 5 of {}/federated_train.csv has"),
        ("user_id,image_id,class\n", TEST, "{}/federated_train.csv has no rows"),
        ("", TEST, "only nothing"),
    ],
)
def test_a_wrong_csv_is_named_with_the_remedy(folder: Path, train: str, test: str, message: str):
    own = landmarks(folder, train, test)
    with pytest.raises(InputError) as error:
        driftless.load("gldv2", size=2)
    assert message.format(own, own) in str(error.value)


def test_a_csv_that_is_not_text_and_an_unreadable_image_are_named(folder: Path):
    own = landmarks(folder)
    picture = own / "images" / "a" / "a" / "1" / "aa1.jpg"
    picture.write_bytes(picture.read_bytes()[:200])
    with pytest.raises(InputError, match=r"aa1\.jpg cannot be read: it is not an image .* get it again"):
        driftless.load("gldv2", size=2)
    (own / "test.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"test\.csv cannot be read"):
        driftless.load("gldv2", size=2)
    (own / "test.csv").unlink()
    with pytest.raises(InputError, match=r"test\.csv is not beside it"):
        driftless.load("gldv2", size=2)


def test_images_that_do_not_fit_in_memory_are_refused_with_the_memory_they_need(folder: Path):
    landmarks(folder)
    with pytest.raises(
        InputError, match=r"the 4 images of 1000000x1000000 pixels need 44703\.5 GiB, and .* lower size"
    ):
        driftless.load("gldv2", size=1_000_000)


def test_without_files_the_error_says_where_they_are(folder: Path):
    with pytest.raises(
        InputError, match=r"needs federated_train\.csv or .*, which is not here.*landmarks-user-160k\.zip"
    ):
        driftless.load("gldv2")
    with pytest.raises(InputError, match="size must be a whole number of at least 1"):
        driftless.load("gldv2", size=0)


def test_the_images_are_float32_and_finite(folder: Path):
    landmarks(folder)
    inputs = driftless.load("gldv2", size=3).inputs
    assert inputs.dtype == torch.float32
    assert torch.isfinite(inputs).all()
