"""A linear layer and Mish, twice."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 4096), "features": (1, 4096), "hidden": (1, 4096)}


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.mish(functional.mish(self.linear(x)))


def get_inputs(batch: int = 1024, features: int = 256) -> list[torch.Tensor]:
    return [torch.randn(batch, features)]


def get_init_inputs(features: int = 256, hidden: int = 1024) -> list[object]:
    return [features, hidden]
