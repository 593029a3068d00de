"""A depthwise 3 x 3 convolution."""

import torch
from torch import nn

DOMAIN = {"batch": (1, 64), "channels": (1, 256), "height": (1, 128), "width": (1, 128)}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs(
    batch: int = 8, channels: int = 64, height: int = 64, width: int = 64
) -> list[torch.Tensor]:
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs(channels: int = 64) -> list[object]:
    return [channels]
