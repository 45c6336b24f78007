"""GroupNorm in the place of BatchNorm, which cannot be trained by federated averaging."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.parameter import is_lazy

from driftless.errors import InputError, check_type, check_whole

MOST_GROUPS = 32
"""As in the paper of GroupNorm (Wu and He, 2018)."""
KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def with_group_norm(module: nn.Module, groups: int | None = None) -> nn.Module:
    """A copy of the module in which each BatchNorm is a GroupNorm with the same scale and shift.

    The running statistics are left out, so it is a start for training, not the same function.

    Args:
        module: The module, which stays as it is.
        groups: Groups of each layer; None: the largest divisor of its channels that is at most 32 and leaves two
            channels to a group, but 1 for a BatchNorm1d, whose inputs may be vectors: a group of two numbers would keep
            only a sign.

    Returns:
        The new module.

    Raises:
        InputError: When `groups` does not divide a layer's channels, or a layer may do more than a BatchNorm.

    Examples:
        >>> from torch import nn
        >>> from driftless.models import with_group_norm
        >>> with_group_norm(nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)))[1]
        GroupNorm(4, 8, ...)
    """
    check_type("module", module, nn.Module, "an nn.Module", "give an instance, not a class")
    check_whole("groups", groups, 1, other=None)
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(value):
            raise InputError(
                f"the module's '{name}' has no shape yet (a lazy module); call the module on a batch first."
            )
    result = copy.deepcopy(module)
    twins: dict[nn.Module, nn.GroupNorm] = {}
    for name, part in list(result.named_modules(remove_duplicate=False)):
        if isinstance(part, _BatchNorm):
            twin = twins[part] if part in twins else twins.setdefault(part, _group_norm(name, part, groups))
            if part is result:
                return twin
            parent, _, attribute = name.rpartition(".")
            setattr(result.get_submodule(parent), attribute, twin)
    return result


def _group_norm(name: str, layer: _BatchNorm, groups: int | None) -> nn.GroupNorm:
    what = f"layer '{name or type(layer).__name__}' is a {type(layer).__name__}"
    channels = layer.num_features
    if type(layer) not in KINDS:
        raise InputError(f"{what}, which may do more than a BatchNorm; replace it yourself.")
    if groups is not None and channels % groups:
        raise InputError(f"{what} of {channels} channels, which groups={groups} does not divide; give a divisor.")
    groups = _default_groups(layer) if groups is None else groups
    result = nn.GroupNorm(groups, channels, layer.eps, layer.affine).train(layer.training)
    result.weight, result.bias = layer.weight, layer.bias
    return result


def _default_groups(layer: _BatchNorm) -> int:
    channels = layer.num_features
    most = 1 if isinstance(layer, nn.BatchNorm1d) else min(MOST_GROUPS, channels // 2)
    return next((n for n in range(most, 1, -1) if channels % n == 0), 1)
