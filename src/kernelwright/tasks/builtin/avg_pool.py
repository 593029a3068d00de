"""Average pooling over 4 x 4 windows."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 64), "channels": (1, 256), "height": (4, 256), "width": (4, 256)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(x, kernel_size=4)


def get_inputs(
    batch: int = 16, channels: int = 64, height: int = 112, width: int = 112
) -> list[torch.Tensor]:
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs() -> list[object]:
    return []
