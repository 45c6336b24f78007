"""Vision transformer (Dosovitskiy et al. 2021). Parameters are named as in torchvision, so that weights load."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt

import torch
from torch import Tensor, nn

from driftless.errors import InputError
from driftless.models.task import Task, require_classes, require_image

PATCH = 16


class SelfAttention(nn.Module):
    """Plain matrix products: the fused operations of torch's own attention do not work under vmap."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        projected = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        # [batch, length, 3 * width] -> three of [batch, heads, length, width / heads]
        query, key, value = projected.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        attention = (query @ key.transpose(-1, -2) / sqrt(width / self.heads)).softmax(-1)
        return self.out_proj((attention @ value).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention, then two linear layers, each behind a LayerNorm and with a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = SelfAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        widen, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for part in (widen, narrow):
            nn.init.xavier_uniform_(part.weight)
            nn.init.normal_(part.bias, std=1e-6)
        # nn.Identity takes the place of torchvision's dropout of 0, so that the layers have the same numbers.
        self.mlp = nn.Sequential(widen, nn.GELU(), nn.Identity(), narrow)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Learned positions, layers, a LayerNorm."""

    def __init__(self, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, length, width).normal_(std=0.02))
        self.layers = nn.Sequential(OrderedDict((f"encoder_layer_{i}", Layer(width, heads)) for i in range(layers)))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    """Patches of 16x16 pixels and a class token, encoded; a linear layer, 0 at first, reads the class token."""

    def __init__(
        self, image: tuple[int, int, int], classes: int, width: int = 768, layers: int = 12, heads: int = 12
    ) -> None:
        super().__init__()
        channels, height, wide = image
        self.conv_proj = nn.Conv2d(channels, width, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder((height // PATCH) * (wide // PATCH) + 1, width, layers, heads)
        head = nn.Linear(width, classes)
        self.heads = nn.Sequential(OrderedDict(head=head))
        nn.init.trunc_normal_(self.conv_proj.weight, std=sqrt(1 / (channels * PATCH**2)))
        for zero in (self.conv_proj.bias, head.weight, head.bias):
            assert zero is not None
            nn.init.zeros_(zero)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], 1)
        return self.heads(self.encoder(tokens)[:, 0])


def vit_b16(task: Task) -> nn.Module:
    """GHBM, GLDv2 and iNaturalist: vision transformer B/16; 86,567,656 parameters for 224x224, 1,000 classes."""
    image = require_image("vit-b16", task, least=PATCH)
    if image[1] % PATCH or image[2] % PATCH:
        raise InputError(
            f"model 'vit-b16' cuts images into patches of {PATCH} x {PATCH} pixels, got inputs of shape "
            f"{task.input_shape}; resize them to a height and width that are multiples of {PATCH}, such as 224."
        )
    return VisionTransformer(image, require_classes("vit-b16", task))
