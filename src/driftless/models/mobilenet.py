"""MobileNetV2 (Sandler et al. 2018) with GroupNorm. Parameters are named as in torchvision, so that weights load."""

from __future__ import annotations

from torch import Tensor, nn

from driftless.models.task import Task, require_classes, require_image

GROUPS = 2
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks, stride of the first block."""


def convolution(before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.GroupNorm(GROUPS, after),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Widen, filter each channel alone, narrow; with a shortcut where the shape stays."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = before * expansion
        widen = [] if expansion == 1 else [convolution(before, hidden)]
        self.conv = nn.Sequential(
            *widen,
            convolution(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, after, 1, bias=False),
            nn.GroupNorm(GROUPS, after),
        )
        self.shortcut = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals, the mean over the image, dropout, a linear layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        parts: list[nn.Module] = [convolution(channels, 32, 3, stride=2)]
        before = 32
        for expansion, after, blocks, stride in STAGES:
            for block in range(blocks):
                parts.append(InvertedResidual(before, after, stride if block == 0 else 1, expansion))
                before = after
        self.features = nn.Sequential(*parts, convolution(before, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out")
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, 0, 0.01)
                nn.init.zeros_(part.bias)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).mean((2, 3)))


def mobilenet_v2(task: Task) -> nn.Module:
    """GHBM, GLDv2 and iNaturalist: MobileNetV2 with GroupNorm; 3,504,872 parameters for 1,000 classes."""
    return MobileNetV2(require_image("mobilenet-v2", task)[0], require_classes("mobilenet-v2", task))
