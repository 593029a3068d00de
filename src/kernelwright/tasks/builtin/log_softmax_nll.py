"""Cross-entropy written out: log-softmax, then the mean negative log-likelihood of the targets."""

import torch
from torch import nn
from torch.nn import functional

DOMAIN = {"rows": (1, 16384), "classes": (2, 16384)}


class Model(nn.Module):
    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.nll_loss(torch.log_softmax(x, dim=-1), target)


def get_inputs(rows: int = 4096, classes: int = 2048) -> list[torch.Tensor]:
    return [torch.randn(rows, classes), torch.randint(0, classes, (rows,))]


def get_init_inputs() -> list[object]:
    return []
