"""The tolerance of public verifiers, for showing what the error budget is for."""

from __future__ import annotations

import torch

from kernelwright.judge.verify.budget import Comparison

_TOLERANCE = 1e-2


def compare_loosely(outputs: list[torch.Tensor], truth: list[torch.Tensor]) -> Comparison:
    """Within 1e-2, relative or absolute, of the truth; whole numbers are equal."""
    worst = 0.0
    for got, want in zip(outputs, truth, strict=True):
        if want.is_floating_point():
            error = (got.double() - want).abs() / (_TOLERANCE * (1 + want.abs()))
            worst = max(worst, float(error.max()) if error.numel() else 0.0)
        elif not torch.equal(got, want):
            worst = float("inf")
    ok = worst <= 1.0
    return Comparison(ok, "" if ok else "the output differs by more than 1e-2", worst, 0.0)
