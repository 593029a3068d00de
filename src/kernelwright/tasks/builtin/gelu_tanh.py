"""GELU in its tanh form, written out."""

import math

import torch
from torch import nn

DOMAIN = {"rows": (1, 16384), "cols": (1, 16384)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs(rows: int = 1024, cols: int = 2048) -> list[torch.Tensor]:
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[object]:
    return []
