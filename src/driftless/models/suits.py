"""Does a model suit the data? One wording for the models that need classes."""

from __future__ import annotations

from driftless.errors import InputError


def need_classes(model: str, classes: int | None) -> int:
    if classes is None:
        raise InputError(
            f"model '{model}' needs classes, but the targets of this data are numbers; use model 'linear'."
        )
    return classes
