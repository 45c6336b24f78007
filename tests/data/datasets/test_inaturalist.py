from __future__ import annotations

from pathlib import Path

import pytest

import driftless
from data import write_files as write
from data.photograph_files import COLOURS, TEST, TRAIN, image
from driftless.data.datasets import photographs
from driftless.errors import InputError


def test_inaturalist_is_found_in_the_archives_folder_with_another_split(folder: Path):
    own = folder / "inaturalist"
    write.text(own / "inaturalist-user-120k" / "federated_train_user_120k.csv", TRAIN)
    write.text(own / "inaturalist-user-120k" / "geo.csv", TRAIN.replace("\n3,", "\n7,"))
    write.text(own / "inaturalist-user-120k" / "test.csv", TEST)
    for name, colour in COLOURS.items():
        image(own / "train_val_images" / "Aves" / "Corvus corax" / f"{name}.jpg", colour)
    assert photographs.INATURALIST.is_here()
    assert driftless.load("inaturalist", size=2).client_names == ("7", "3")
    assert driftless.load("inaturalist", size=2, train_csv="geo.csv").client_names == ("7",)


def test_without_files_the_error_says_where_they_are(folder: Path):
    with pytest.raises(InputError, match=r"federated_train_user_120k\.csv or .*, which is not here.*iNaturalist 2017"):
        driftless.load("inaturalist")
