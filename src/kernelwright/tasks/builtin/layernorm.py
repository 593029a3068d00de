"""Layer normalisation with scale and shift over the last dimension."""

import torch
from torch import nn

DOMAIN = {"rows": (1, 16384), "cols": (2, 16384)}


class Model(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs(rows: int = 8192, cols: int = 1024) -> list[torch.Tensor]:
    return [torch.randn(rows, cols)]


def get_init_inputs(cols: int = 1024) -> list[object]:
    return [cols]
