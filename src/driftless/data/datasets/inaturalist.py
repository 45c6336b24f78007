"""iNaturalist by user (iNaturalist-User-120k): photographs of plants and animals, one client per observer.

Van Horn et al., The iNaturalist species classification and detection dataset, CVPR 2018; the split by user is that of
Hsu, Qi and Brown, ECCV 2020.
"""

from __future__ import annotations

from driftless.data import fetch
from driftless.data.examples import Examples
from driftless.data.preprocessing.photographs import SPLIT_CITATION, SPLITS_ADDRESS, photographs_by_user

TRAIN_CSV = "federated_train_user_120k.csv"
SOURCE = f"iNaturalist 2017, G. Van Horn et al., 2018, for research; {SPLIT_CITATION}"
ADVICE = (
    f"unpack {SPLITS_ADDRESS}/inaturalist-user-120k.zip into the folder inaturalist of DRIFTLESS_DATA and put the "
    "images of iNaturalist 2017 into its folder train_val_images"
)


def load(size: int = 224, limit_users: int | None = None, train_csv: str = TRAIN_CSV) -> Examples:
    """size: of the square that an image is cut and scaled to. train_csv: another split, such as one by place."""
    return photographs_by_user("inaturalist", _csv_names(train_csv), ADVICE, SOURCE, size, limit_users)


def is_here() -> bool:
    return fetch.find("inaturalist", *_csv_names(TRAIN_CSV)) is not None


def _csv_names(train_csv: str) -> tuple[str, ...]:
    """In the data set's folder, or in the folder of the archive."""
    return train_csv, f"inaturalist-user-120k/{train_csv}"
