"""A linear layer, average pooling over its features, GELU, a scale and the maximum."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 4096), "features": (1, 4096), "pooled": (1, 512)}


class Model(nn.Module):
    def __init__(self, features: int, pooled: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 8 * pooled)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = functional.avg_pool1d(self.linear(x).unsqueeze(1), kernel_size=8).squeeze(1)
        return torch.amax(functional.gelu(pooled) * 2.0, dim=1)


def get_inputs(batch: int = 256, features: int = 1024) -> list[torch.Tensor]:
    return [torch.randn(batch, features)]


def get_init_inputs(features: int = 1024, pooled: int = 128) -> list[object]:
    return [features, pooled]
