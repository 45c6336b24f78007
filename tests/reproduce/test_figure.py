"""Figures of experiments, as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from driftless.report.line_styles import LIGHT
from driftless.reproduce.figure import Line, Panel, draw


def test_every_line_keeps_its_colour_in_the_file(tmp_path: Path):
    """Three panels of eight noisy lines with bands, of which few pixels are lines."""
    rounds = list(range(40))
    rng = np.random.default_rng(0)
    lines = tuple(
        Line(f"algorithm {i}", rounds, list(60 + i + 5 * rng.standard_normal(40)), [10.0] * 40) for i in range(8)
    )
    draw([Panel("", "rounds", "accuracy (%)", lines)] * 3, tmp_path / "figure.png")
    found = pixels(tmp_path / "figure.png")
    for color in LIGHT[:8]:
        assert distance(color, found) < 10


def test_a_label_has_the_same_colour_in_all_panels(tmp_path: Path):
    first, second = (Line(name, list(range(40)), [start, start + 1] * 20) for name, start in (("one", 0), ("two", 2)))
    draw([Panel("", "rounds", "loss", lines) for lines in ((first, second), (second,))], tmp_path / "figure.png")
    found = pixels(tmp_path / "figure.png")
    assert distance(LIGHT[1], found[:, found.shape[1] // 2 :]) < 10


def pixels(file: Path) -> np.ndarray:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def distance(color: str, found: np.ndarray) -> int:
    """To the nearest colour of the picture."""
    return int(np.abs(found - np.array(list(bytes.fromhex(color[1:])))).sum(-1).min())
