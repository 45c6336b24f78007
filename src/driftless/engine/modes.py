"""Training and evaluation mode: which layers stay in evaluation mode while the module around them is trained."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

from driftless.errors import InputError


def kept_in_eval(module: nn.Module) -> list[nn.Module]:
    """Every layer that was put into eval() inside a module in training mode.

    A module that is in evaluation mode as a whole was only evaluated last, or comes so from a library of pretrained
    networks: of it, only the layers with running statistics stay, since to train them is impossible here.
    """
    layers = [part for part in module.modules() if not part.training]
    return layers if module.training else [part for part in layers if has_statistics(part)]


def begin_training(module: nn.Module, kept: list[nn.Module]) -> None:
    """Training mode, but for the layers `kept`."""
    module.train()
    for part in kept:
        part.training = False  # not eval(), which would change the layers inside, too


def has_statistics(part: nn.Module) -> bool:
    """Whether it normalises by statistics of batches: BatchNorm, InstanceNorm with track_running_stats."""
    return isinstance(part, _BatchNorm) or bool(getattr(part, "track_running_stats", False))


def frozen_statistics(module: nn.Module) -> list[str]:
    """The layers that normalise by fixed statistics, of a module that is ready to be trained.

    An error if one would use those of a batch: they would mix a client's examples with padding, and running statistics
    are not parameters.
    """
    layers = {name: part for name, part in module.named_modules() if has_statistics(part)}
    for name, part in layers.items():
        of_batches = isinstance(part, _BatchNorm) and part.running_mean is None  # also in evaluation mode
        if part.training or of_batches:
            raise InputError(
                f"layer '{name or type(part).__name__}' is a {type(part).__name__}"
                f"{' without running statistics' if of_batches else ' in training mode'}: its batch or running "
                f"statistics are not parameters and cannot be averaged like them. {remedy(part, of_batches)}"
            )
    return list(layers)


def remedy(part: nn.Module, of_batches: bool) -> str:
    if not isinstance(part, _BatchNorm):
        return "Use track_running_stats=False; or, in a pretrained network, keep its statistics: call eval() on it."
    instead = "Give driftless.models.with_group_norm(module), a copy with nn.GroupNorm instead"
    return f"{instead}{'.' if of_batches else '; or, in a pretrained network, keep its statistics: call eval() on it.'}"
