"""federation.json: how the data were divided, so that a report need not load them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from driftless.data.federation import Federation

MOST_SIZES = 1000
MOST_CLIENTS, MOST_CLASSES = 100, 100
"""Whose labels are counted, and which labels: the file stays small for a million clients."""
QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)


def federation_summary(federation: Federation) -> dict[str, Any]:
    """`sizes` are those of the first clients, `labels` counts per class of the first; None for regression."""
    sizes = federation.sizes
    return {
        "clients": federation.clients,
        "examples": len(federation.inputs),
        "sizes": sizes[:MOST_SIZES].tolist(),
        "size_quantiles": {f"{q:g}": float(np.quantile(sizes, q)) for q in QUANTILES},
        "labels": None if federation.classes is None else label_counts(federation),
        "classes": federation.classes,
        "validation_clients": federation.validation.clients if federation.validation else 0,
    }


def label_counts(federation: Federation) -> list[list[int]]:
    offsets = federation.offsets[: MOST_CLIENTS + 1]
    rows = int(offsets[-1])
    first = replace(
        federation, inputs=federation.inputs[:rows], targets=federation.targets[:rows], offsets=offsets,
        validation=None, client_test=None, client_names=None,
    )  # fmt: skip
    return first.label_counts()[:, :MOST_CLASSES].tolist()
