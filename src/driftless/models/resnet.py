"""Residual networks (He et al. 2016) with GroupNorm of two groups in the place of BatchNorm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from driftless.models.task import Task, require_classes, require_image

GROUPS = 2


class Subsample(nn.Module):
    """He et al.'s shortcut A: every second pixel, new channels of 0 on both sides; no parameters."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.left = (after - before) // 2
        self.right = after - before - self.left

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.left, self.right))


def projection(before: int, after: int) -> nn.Module:
    """He et al.'s shortcut B: a 1x1 convolution."""
    return nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), nn.GroupNorm(GROUPS, after))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    def __init__(self, before: int, after: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(GROUPS, after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, after)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        residual = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(residual + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, stages of blocks, the mean over the image, a linear layer. Each stage but the first halves the image.

    `shortcut(before, after)` makes the shortcut of a block that halves.
    """

    def __init__(
        self, stem: nn.Module, widths: Sequence[int], blocks: int, shortcut: Callable[[int, int], nn.Module], head: int
    ) -> None:
        super().__init__()
        self.stem = stem
        first = [Block(widths[0], widths[0], 1, nn.Identity())]
        halving = [Block(before, after, 2, shortcut(before, after)) for before, after in pairwise(widths)]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(block, *(Block(width, width, 1, nn.Identity()) for _ in range(blocks - 1)))
                for block, width in zip(first + halving, widths, strict=True)
            )
        )
        self.head = nn.Linear(widths[-1], head)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


def resnet_20(task: Task) -> nn.Module:
    """GHBM, CIFAR-10: ResNet-20 with GroupNorm of two groups; 269,722 parameters."""
    channels, _, _ = require_image("resnet-20", task)
    stem = nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.GroupNorm(GROUPS, 16), nn.ReLU())
    return ResNet(stem, (16, 32, 64), 3, Subsample, require_classes("resnet-20", task))


def resnet_18(task: Task) -> nn.Module:
    """Large cohorts, CIFAR-100: ResNet-18 with GroupNorm of two groups; 11,227,812 parameters."""
    channels, _, _ = require_image("resnet-18", task)
    stem = nn.Sequential(
        nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False),
        nn.GroupNorm(GROUPS, 64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    )
    return ResNet(stem, (64, 128, 256, 512), 2, projection, require_classes("resnet-18", task))
