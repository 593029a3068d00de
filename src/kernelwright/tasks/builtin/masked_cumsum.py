"""Running sum along the last dimension of the elements a mask keeps."""

import torch
from torch import nn

DOMAIN = {"rows": (1, 8192), "cols": (1, 16384)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=-1)


def get_inputs(rows: int = 1024, cols: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(rows, cols), torch.randint(0, 2, (rows, cols)).bool()]


def get_init_inputs() -> list[object]:
    return []
