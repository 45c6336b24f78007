"""The part of a metric's axis that is shown first: where the curves are, whatever a few points or one curve do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from driftless.report.curves import Band, Curve
from driftless.report.metrics import short
from driftless.report.notes import all_diverged

FEW = 0.05
"""Share of a curve's points, on either side, that may be left out."""
EMPTY = 2.0
"""They are left out when the axis they alone would need is this many times as long as that of the others."""
FEWEST = 8
"""A curve of fewer points is shown whole."""
FAR = 1000.0
"""A curve that is this many times as high as the others is left out: its training diverges."""


class Range(NamedTuple):
    low: float
    high: float


class View(NamedTuple):
    """Of one metric."""

    ranges: list[Range | None]
    """Where each curve is; None without a value."""
    far: list[bool]
    """Whether the curve is far above the others."""

    @property
    def whole(self) -> Range | None:
        """What is shown of all curves together."""
        near = [each for each, far in zip(self.ranges, self.far, strict=True) if each and not far]
        return Range(min(each.low for each in near), max(each.high for each in near)) if near else None

    @property
    def log(self) -> bool:
        return self.whole is not None and is_wide(*self.whole)


def is_wide(low: float, high: float) -> bool:
    """Whether values ask for a logarithmic scale: positive and over three powers of ten."""
    return 0 < low < high / 1000


def view_of(curves: Sequence[Curve], bands: Sequence[Band | None]) -> View:
    ranges = [curve_range(found) if found else None for found in bands]
    healthy = [each.high for each, curve in zip(ranges, curves, strict=True) if each and not all_diverged(curve)]
    heights = sorted(map(abs, healthy or [each.high for each in ranges if each]))
    usual = heights[(len(heights) - 1) // 2] if heights else 0.0
    return View(ranges, [each is not None and 0 < FAR * usual < abs(each.high) for each in ranges])


def curve_range(found: Band) -> Range | None:
    """The curve with its band, without a few points that are far from the others."""
    finite = np.isfinite(found.mean)
    mean, std = found.mean[finite], np.nan_to_num(found.std[finite], posinf=0.0)
    if not len(mean):
        return None
    # A band that reaches below zero where the metric itself does not is cut off.
    lows = np.sort(np.where((mean > 0) & (mean <= std), mean, mean - std))
    highs = np.sort(mean + std)
    few = max(1, round(FEW * len(mean))) if len(mean) >= FEWEST else 0
    low, high = float(lows[few]), float(highs[-1 - few])
    lowest, highest = float(lows[0]), float(highs[-1])
    room = EMPTY * (high - low)
    if room <= 0 or is_wide(low, high):
        return Range(lowest, highest)
    return Range(low if low - lowest > room else lowest, high if highest - high > room else highest)


def with_room(shown: Range, log: bool) -> Range:
    """A little more on either side, so that no line lies on the edge."""
    low, high = (math.log10(end) if log else end for end in shown)
    room = 0.05 * (high - low)
    return Range(*(10**end if log else end for end in (low - room, high + room)))


def beyond(curves: Sequence[Curve], bands: Sequence[Band | None], shown: Range) -> list[str]:
    """What is not shown, in words: "scaffold (up to 1e+22)"."""
    texts: list[str] = []
    for curve, found in zip(curves, bands, strict=True):
        mean = found.mean[np.isfinite(found.mean)] if found else np.zeros(0)
        parts = [f"down to {short(float(mean.min()), 2)}"] if len(mean) and mean.min() < shown.low else []
        parts += [f"up to {short(float(mean.max()), 2)}"] if len(mean) and mean.max() > shown.high else []
        texts += [f"{curve.label} ({' and '.join(parts)})"] if parts else []
    return texts
