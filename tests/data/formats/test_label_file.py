from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftless.data.formats.label_file import npz_labels
from driftless.errors import InputError


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
