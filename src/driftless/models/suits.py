"""Does a model suit the data? What the data ask of a model, and one wording for what a model needs of the data."""

from __future__ import annotations

from typing import NamedTuple

from driftless.errors import InputError


class Task(NamedTuple):
    """What the data ask of a model."""

    input_shape: tuple[int, ...]
    """Of one example."""
    classes: int | None
    """None: the targets are numbers."""
    target_shape: tuple[int, ...] = ()
    """Of one target: () for one label, (length,) for a label at each step of a sequence."""


def need_classes(model: str, task: Task) -> int:
    """The number of classes of data with one label for each example."""
    classes = _classes(model, task)
    if task.target_shape:
        raise InputError(
            f"model '{model}' gives one label for each example, but the targets of this data have the shape "
            f"{task.target_shape}; use a recurrent model, such as 'lstm-ghbm', for sequences of labels."
        )
    return classes


def need_image(model: str, task: Task, least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width."""
    shape = task.input_shape
    if len(shape) != 3 or min(shape[1:]) < least:
        raise InputError(
            f"model '{model}' needs images of shape (channels, height, width), height and width at least {least}, "
            f"got inputs of shape {shape}; use model 'mlp' for other inputs."
        )
    return shape[0], shape[1], shape[2]


def need_sequence(model: str, task: Task) -> tuple[int, bool]:
    """The size of the vocabulary, and whether each step of the sequence has a label (or only the whole has one)."""
    if len(task.input_shape) != 1:
        raise InputError(
            f"model '{model}' needs sequences of token numbers, inputs of shape (length,), got inputs of shape "
            f"{task.input_shape}; use it for text, and 'mlp' or 'cnn' for other data."
        )
    vocabulary = _classes(model, task)
    if task.target_shape not in ((), task.input_shape):
        raise InputError(
            f"model '{model}' gives one label, or one for each of the {task.input_shape[0]} steps of a sequence, but "
            f"the targets of this data have the shape {task.target_shape}; give targets of shape () or "
            f"{task.input_shape}."
        )
    return vocabulary, task.target_shape != ()


def _classes(model: str, task: Task) -> int:
    if task.classes is None:
        raise InputError(
            f"model '{model}' needs classes, but the targets of this data are numbers; use model 'linear'."
        )
    return task.classes
