"""Index of the largest element along the middle dimension."""

import torch
from torch import nn

DOMAIN = {"batch": (1, 64), "middle": (1, 4096), "cols": (1, 4096)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, dim=1)


def get_inputs(batch: int = 16, middle: int = 512, cols: int = 1023) -> list[torch.Tensor]:
    return [torch.randn(batch, middle, cols)]


def get_init_inputs() -> list[object]:
    return []
