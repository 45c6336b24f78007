from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from data.idx_files import as_idx, small_set
from driftless.data.datasets import emnist
from driftless.errors import InputError

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
    assert not emnist.is_here()
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
