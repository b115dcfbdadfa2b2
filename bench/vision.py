"""Convolutional networks in the manner of torchvision, with every size a parameter. Random weights.

Inputs are (batch, 3, height, width), of the weights' type.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def _normalised(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution that keeps the side (over the stride), and its batch normalisation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=(kernel - 1) // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with a residual (He et al., "Deep residual learning", 2015)."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int):
        super().__init__()
        outputs = width * expansion
        self.body = nn.Sequential(
            *_normalised(inputs, width, 1),
            nn.ReLU(inplace=True),
            *_normalised(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_normalised(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*_normalised(inputs, outputs, 1, stride))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """ResNet-50 with its defaults: (B, 3, H, W) -> (B, classes)."""

    def __init__(self, blocks=(3, 4, 6, 3), width: int = 64, expansion: int = 4, classes: int = 1000):
        super().__init__()
        layers = [*_normalised(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Bottleneck(channels, width << stage, stride, expansion))
                channels = (width << stage) * expansion
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class InvertedResidual(nn.Module):
    """Widen, filter each channel alone, narrow (Sandler et al., "MobileNetV2", 2018)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
        super().__init__()
        width = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            *_normalised(inputs, width, 1),
            nn.ReLU6(inplace=True),
            *_normalised(width, width, 3, stride, groups=width),
            nn.ReLU6(inplace=True),
            *_normalised(width, outputs, 1),
        )

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class MobileNet(nn.Module):
    """MobileNetV2 with its defaults: (B, 3, H, W) -> (B, classes). A stage is (outputs, blocks, stride)."""

    STAGES = ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1))

    def __init__(self, stages=STAGES, stem: int = 32, expansion: int = 6, last: int = 1280, classes: int = 1000):
        super().__init__()
        layers = [*_normalised(3, stem, 3, 2), nn.ReLU6(inplace=True)]
        channels = stem
        for outputs, count, stride in stages:
            for block in range(count):
                layers.append(InvertedResidual(channels, outputs, stride if block == 0 else 1, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, *_normalised(channels, last, 1), nn.ReLU6(inplace=True))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def _double_convolution(inputs: int, outputs: int) -> nn.Sequential:
    first, second = _normalised(inputs, outputs, 3), _normalised(outputs, outputs, 3)
    return nn.Sequential(*first, nn.ReLU(inplace=True), *second, nn.ReLU(inplace=True))


class UNet(nn.Module):
    """(B, 3, H, W) -> (B, classes, H, W) (Ronneberger et al., "U-Net", 2015). Sides: multiples of 2^depth.
    `mode`: how the way up widens, "nearest", "bilinear" or "transposed" (a transposed convolution)."""

    def __init__(self, width: int = 32, depth: int = 4, classes: int = 2, mode: str = "nearest"):
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.mode = mode
        self.first = _double_convolution(3, width)
        self.down = nn.ModuleList(_double_convolution(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.up = nn.ModuleList(_double_convolution(a + b, a) for a, b in zip(sizes, sizes[1:], strict=False))
        transposed = (nn.ConvTranspose2d(b, b, 2, 2) for b in sizes[1:])
        self.widen = nn.ModuleList(transposed if mode == "transposed" else [])
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for level in reversed(range(len(self.up))):
            x = self.widen[level](x) if self.mode == "transposed" else self._interpolate(x)
            x = self.up[level](torch.cat([kept.pop(), x], 1))
        return self.last(x)

    def _interpolate(self, x):
        corners = {} if self.mode == "nearest" else {"align_corners": False}
        return F.interpolate(x, scale_factor=2, mode=self.mode, **corners)
