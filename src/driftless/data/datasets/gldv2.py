"""Google Landmarks v2 by user (Landmarks-User-160k): photographs of landmarks, one client per photographer.

Weyand et al., Google Landmarks Dataset v2, CVPR 2020; the split by user is that of Hsu, Qi and Brown, ECCV 2020.
"""

from __future__ import annotations

from driftless.data import fetch
from driftless.data.examples import Examples
from driftless.data.preprocessing.photographs import SPLIT_CITATION, SPLITS_ADDRESS, photographs_by_user

TRAIN_CSV = "federated_train.csv"
SMALL_TRAIN_CSV = "mini_gld_train_split.csv"  # the split of 23k images
SOURCE = f"Google Landmarks Dataset v2, T. Weyand et al., 2020, CC BY 4.0; {SPLIT_CITATION}"
ADVICE = (
    f"unpack {SPLITS_ADDRESS}/landmarks-user-160k.zip into the folder gldv2 of DRIFTLESS_DATA and put the images of "
    "Google Landmarks v2 into its folder images"
)


def load(size: int = 224, limit_users: int | None = None, train_csv: str = TRAIN_CSV) -> Examples:
    """size: of the square that an image is cut and scaled to. train_csv: the file of another split."""
    return photographs_by_user("gldv2", _csv_names(train_csv), ADVICE, SOURCE, size, limit_users)


def is_here() -> bool:
    return fetch.find("gldv2", *_csv_names(TRAIN_CSV)) is not None


def _csv_names(train_csv: str) -> tuple[str, ...]:
    """In the data set's folder, in the folder of the archive, and the small split unless another file was named."""
    small = (SMALL_TRAIN_CSV,) if train_csv == TRAIN_CSV else ()
    return train_csv, f"landmarks-user-160k/{train_csv}", *small
