"""Max pooling over 3 x 3 windows, two apart."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 64), "channels": (1, 256), "height": (2, 256), "width": (2, 256)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)


def get_inputs(
    batch: int = 4, channels: int = 64, height: int = 112, width: int = 112
) -> list[torch.Tensor]:
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs() -> list[object]:
    return []
