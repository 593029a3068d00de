"""A linear layer whose output features are summed."""

import torch
from torch import nn

DOMAIN = {"batch": (1, 4096), "features": (1, 8192), "hidden": (1, 8192)}


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(self.linear(x), dim=1, keepdim=True)


def get_inputs(batch: int = 256, features: int = 2048) -> list[torch.Tensor]:
    return [torch.randn(batch, features)]


def get_init_inputs(features: int = 2048, hidden: int = 2048) -> list[object]:
    return [features, hidden]
