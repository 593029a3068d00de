"""Twice each element."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(512, 1024)]


def get_init_inputs() -> list[object]:
    return []
