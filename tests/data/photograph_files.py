"""Writers of small photographs and their csv files."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from data import write_files as write

TRAIN = "user_id,image_id,class\n7,aa1,0\n3,bb2,2\n7,cc3,1\n"
TEST = "image_id,class\ndd4,1\n"
COLOURS = {"aa1": (255, 0, 0), "bb2": (0, 255, 0), "cc3": (0, 0, 255), "dd4": (128, 128, 128)}


def image(path: Path, colour: tuple[int, int, int], shape: tuple[int, int] = (12, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", shape, colour).save(path, quality=100)


def landmarks(folder: Path, train: str = TRAIN, test: str = TEST) -> Path:
    """As published: the csv files of the split, the images in a/b/c/abc....jpg."""
    own = folder / "gldv2"
    write.text(own / "federated_train.csv", train)
    write.text(own / "test.csv", test)
    for name, colour in COLOURS.items():
        image(own / "images" / name[0] / name[1] / name[2] / f"{name}.jpg", colour)
    return own
