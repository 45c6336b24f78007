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
    with Image.open(tmp_path / "figure.png") as picture:
        found = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0).astype(int)
    for color in LIGHT[:8]:
        distance = np.abs(found - np.array(list(bytes.fromhex(color[1:])))).sum(1).min()
        assert distance < 10, f"the nearest colour to {color} is {distance} away"
