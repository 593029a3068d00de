"""A pre-norm transformer block: causal self-attention and a feed-forward layer."""

import math

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"batch": (1, 8), "length": (1, 256), "heads": (1, 8)}
HEAD_WIDTH = 32


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        width = heads * HEAD_WIDTH
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, HEAD_WIDTH)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(HEAD_WIDTH)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def get_inputs(batch: int = 4, length: int = 128, heads: int = 8) -> list[torch.Tensor]:
    return [torch.randn(batch, length, heads * HEAD_WIDTH)]


def get_init_inputs(heads: int = 8) -> list[object]:
    return [heads]
