"""Damaged archives of CIFAR-10 are refused with the name of the member."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from data.cifar_files import as_python2_pickle, binary_members, python_members, small_10, write_tar
from driftless.data.datasets.cifar10 import LAYOUT
from driftless.data.formats.cifar_archive import read_archive
from driftless.errors import InputError


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_archive_names_the_file_and_the_remedy(part: float, tmp_path: Path):
    path = tmp_path / "cifar-10-python.tar.gz"
    write_tar(path, python_members(small_10(), {"labels": "labels"}))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz cannot be read: .* delete it and get it again"):
        read_archive(tmp_path / "cifar-10-python.tar.gz", LAYOUT)


def test_an_archive_without_a_batch_names_the_batch(tmp_path: Path):
    members = binary_members(small_10(), ["labels"])
    del members["data_batch_4.bin"]
    write_tar(tmp_path / "cifar-10-binary.tar.gz", members)
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz cannot be read: it does not have data_batch_4.bin"):
        read_archive(tmp_path / "cifar-10-binary.tar.gz", LAYOUT)


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
def test_a_spoilt_batch_names_the_archive_and_the_member(spoil, complaint: str, tmp_path: Path):
    members = python_members(small_10(), {"labels": "labels"})
    spoil(members)
    write_tar(tmp_path / "cifar-10-python.tar.gz", members)
    with pytest.raises(InputError, match=complaint) as caught:
        read_archive(tmp_path / "cifar-10-python.tar.gz", LAYOUT)
    assert "cifar-10-python.tar.gz (member data_batch_2)" in str(caught.value)
    assert "delete" in str(caught.value)


def test_binary_rows_that_are_not_whole_are_refused(tmp_path: Path):
    members = binary_members(small_10(), ["labels"])
    members["test_batch.bin"] += b"x"
    write_tar(tmp_path / "cifar-10-binary.tar.gz", members)
    with pytest.raises(
        InputError, match=r"\(member test_batch.bin\) cannot be read: its 12293 bytes are not whole rows"
    ):
        read_archive(tmp_path / "cifar-10-binary.tar.gz", LAYOUT)


class RunsOnLoading:
    """Its pickle calls os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)  # pyright: ignore[reportDeprecated]


def test_a_malicious_batch_runs_nothing(tmp_path: Path):
    members = python_members(small_10(), {"labels": "labels"})
    mark = tmp_path / "was-run"
    members["data_batch_1"] = pickle.dumps(RunsOnLoading(f"touch {mark}"), protocol=2)
    write_tar(tmp_path / "cifar-10-python.tar.gz", members)
    with pytest.raises(InputError, match=r"\(member data_batch_1\) asks to run \w+.system.* nothing of it was run"):
        read_archive(tmp_path / "cifar-10-python.tar.gz", LAYOUT)
    assert not mark.exists()
