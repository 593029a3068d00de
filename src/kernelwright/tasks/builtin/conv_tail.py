"""A convolution of three channels, its bias, a subtraction and two activations."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 64), "features": (1, 64), "height": (3, 128), "width": (3, 128)}


class Model(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, features, 3)
        self.shift = nn.Parameter(torch.randn(features, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.mish(functional.hardswish(self.conv(x) - self.shift))


def get_inputs(batch: int = 8, height: int = 96, width: int = 96) -> list[torch.Tensor]:
    return [torch.randn(batch, 3, height, width)]


def get_init_inputs(features: int = 16) -> list[object]:
    return [features]
