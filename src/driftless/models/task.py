"""The shapes of the data that a model is built for, and checks that the model can take them."""

from __future__ import annotations

from typing import NamedTuple

from driftless.errors import InputError


class Task(NamedTuple):
    """Shapes of one example and its target, and the number of classes."""

    input_shape: tuple[int, ...]
    classes: int | None
    """None: regression. For text, the size of the vocabulary."""
    target_shape: tuple[int, ...] = ()
    """() for one label, (length,) for a label at each step of a sequence."""


def require_classes(model: str, task: Task) -> int:
    """The number of classes; raises unless each example has one label."""
    classes = _classes(model, task)
    if task.target_shape:
        raise InputError(
            f"model '{model}' gives one label for each example, but the targets of this data have the shape "
            f"{task.target_shape}; use a recurrent model, such as 'lstm-ghbm', for sequences of labels."
        )
    return classes


def require_image(model: str, task: Task, least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width; raises unless the inputs are images with sides of at least `least` pixels."""
    shape = task.input_shape
    if len(shape) != 3 or min(shape[1:]) < least:
        raise InputError(
            f"model '{model}' needs images of shape (channels, height, width), height and width at least {least}, "
            f"got inputs of shape {shape}; use model 'mlp' for other inputs."
        )
    return shape[0], shape[1], shape[2]


def require_sequence(model: str, task: Task) -> tuple[int, bool]:
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
