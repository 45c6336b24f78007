"""Pretrained weights from a safetensors file; pickles are not read, because they can run any code."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from driftless.errors import InputError

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""Of BatchNorm; GroupNorm has none."""


def load_weights(module: nn.Module, file: str | PathLike[str]) -> tuple[str, ...]:
    """Copy the tensors of a safetensors file into a module, by name.

    A last layer for another number of classes stays as it is, and statistics of BatchNorm are ignored by a module that
    has none. Everything else must match, or nothing is copied.

    Args:
        module: The module, which is changed.
        file: The path of a `.safetensors` file, such as `result.save(file)` writes.

    Returns:
        A sentence for each part that was left out.

    Raises:
        InputError: When the file cannot be read, or is of another model.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=5)
        >>> result.save("trained.safetensors")
        >>> module = driftless.models.build("logistic", (1, 8, 8), classes=10)
        >>> driftless.models.load_weights(module, "trained.safetensors")
        ()
    """
    path, own = Path(file), module.state_dict()
    stored = _read(path)
    found = {name: value for name, value in stored.items() if name in own or not name.endswith(STATISTICS)}
    _check_names(path, found, own)
    other_head = [name for name in _last_layer(module) if _differs_in_classes(found[name], own[name])]
    used = {name: value for name, value in found.items() if name not in other_head}
    for name, value in used.items():
        _check_tensor(path, name, value, own[name])
    module.load_state_dict(used, strict=False)  # not strict: without the last layer if its classes differ

    notices: list[str] = []
    if other_head:
        given, wanted = len(found[other_head[0]]), len(own[other_head[0]])
        notices.append(
            f"the last layer ({', '.join(other_head)}) in '{path}' is for {given} classes, the data have {wanted}: it "
            "begins untrained"
        )
    if len(found) < len(stored):
        notices.append(f"{len(stored) - len(found)} statistics of BatchNorm in '{path}' were ignored")
    return tuple(notices)


def weights_content(module: nn.Module) -> bytes:
    """All parameters and buffers of a module by their names, as the content of a safetensors file.

    Args:
        module: The module.

    Returns:
        The bytes.

    Examples:
        >>> import torch
        >>> from driftless.models import weights_content
        >>> len(weights_content(torch.nn.Linear(3, 2))) > 8 * 4
        True
    """
    # Copies: safetensors refuses tensors that share memory, such as tied weights.
    return safetensors.torch.save({name: value.contiguous().clone() for name, value in module.state_dict().items()})


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise InputError(f"there is no file of weights '{path}'; give the path of a .safetensors file.") from None
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"'{path}' is not a safetensors file that can be read: {error}. Write one with "
            "safetensors.torch.save_file(module.state_dict(), FILE); files of torch.save (.pt, .pth) are not read, "
            "because they can contain code."
        ) from None


def _last_layer(module: nn.Module) -> list[str]:
    """The names of the parameters of the last linear layer: those that depend on the number of classes."""
    last = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)][-1:]
    return [name for name in module.state_dict() if name.rpartition(".")[0] in last]


def _differs_in_classes(found: Tensor, own: Tensor) -> bool:
    return found.dim() == own.dim() and len(found) != len(own) and found.shape[1:] == own.shape[1:]


def _check_names(path: Path, found: Collection[str], own: Collection[str]) -> None:
    missing = [name for name in own if name not in found]
    unexpected = [name for name in found if name not in own]
    if missing or unexpected:
        problems = [f"has no {_listed(missing)}"] * bool(missing) + [f"has {_listed(unexpected)}"] * bool(unexpected)
        raise InputError(
            f"the weights '{path}' are not of this model: the file {' and '.join(problems)}"
            f"{', which the model has not' if unexpected else ''}. The names must be those of the model's "
            "state_dict(); docs/models.md says which they are."
        )


def _listed(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"'{name}'" for name in names[:most]) + more


def _check_tensor(path: Path, name: str, found: Tensor, own: Tensor) -> None:
    if found.shape != own.shape:
        raise InputError(
            f"tensor '{name}' of the weights '{path}' has the shape {list(found.shape)}, the model needs "
            f"{list(own.shape)}; give weights of this model for inputs of this shape."
        )
    same_kind = found.is_floating_point() == own.is_floating_point()
    if not same_kind or not found.isfinite().all():
        what = "numbers that are not finite" if same_kind else f"numbers of type {found.dtype}"
        wanted = "finite floating-point" if own.is_floating_point() else "whole"
        raise InputError(f"tensor '{name}' of the weights '{path}' has {what}; give {wanted} numbers.")
