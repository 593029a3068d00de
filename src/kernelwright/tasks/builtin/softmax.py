"""Softmax over the last dimension of a matrix."""

import torch
from torch import nn

DOMAIN = {"rows": (1, 16384), "cols": (1, 16384)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs(rows: int = 8192, cols: int = 1024) -> list[torch.Tensor]:
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[object]:
    return []
