"""How many numbers the reference adds up, and how far rounding may carry an honest sum of them.

A plain loop in the working precision is as honest as a pairwise tree and errs more: with random
roundings by sqrt(n)*u*S (Higham and Mary, "A new approach to probabilistic rounding error
analysis", SISC 2019), with nearly equal terms, which round the same way again and again, by n*u*S
(Higham, Accuracy and Stability, 2nd ed., 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.judge.verify.budget import BUDGETS

_SAMPLE = 4096
_FEW_VALUES = 64


class Watcher(Protocol):
    """Told of every operator of one run, in float64."""

    def see(self, func: Any, given: Mapping[str, Any], result: Any) -> None:
        """The operator, its arguments by name, and what it returned."""


class LongestSum:
    """Watches one run of the oracle for the operator that combines the most numbers into one."""

    def __init__(self) -> None:
        self.terms = 1

    def see(self, func: Any, given: Mapping[str, Any], result: Any) -> None:
        """Told of every operator that ran, with its arguments by name."""
        if torch.Tag.pointwise not in func.tags and not func.is_view:
            self.terms = max(self.terms, _terms(given, result))


def _terms(given: Mapping[str, Any], result: Any) -> int:
    """From sizes alone, for any operator: a reduction's ratio, a contraction's shared length."""
    inputs = sorted((t for t in map(_size, tree_leaves(dict(given))) if t), reverse=True)
    outputs = [t for t in map(_size, tree_leaves(result)) if t]
    if not inputs or not outputs:
        return 1
    found = inputs[0] / min(outputs)  # sum and mean; a norm returns its means too
    if len(inputs) > 1:
        found = max(found, math.sqrt(inputs[0] * inputs[1] / max(outputs)))  # MK * KN / MN = K^2
    first, dim = given.get("self"), given.get("dim")
    if isinstance(first, torch.Tensor) and isinstance(dim, int) and first.dim():
        found = max(found, first.shape[dim])  # a scan or softmax returns as many as it takes
    return math.ceil(found)


def _size(leaf: Any) -> int:
    return leaf.numel() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else 0


def growth(terms: int, *, coherent: bool) -> float:
    """Factor on the condition-aware bound for sums of that many terms.

    Args:
        terms: of the longest sum.
        coherent: the terms may be nearly equal, so that their roundings add up.
    """
    if coherent:
        return 1.0 + BUDGETS.growth_coherent * (terms - 1)
    return 1.0 + BUDGETS.growth_random * (math.sqrt(terms) - 1.0)


def repeats(values: list[torch.Tensor]) -> bool:
    """Whether one of the inputs holds few distinct numbers."""
    return any(_few_values(v) for v in values if v.is_floating_point() and v.numel() >= _SAMPLE)


def _few_values(value: torch.Tensor) -> bool:
    places = torch.linspace(
        0, value.numel() - 1, _SAMPLE, dtype=torch.float64, device=value.device
    ).long()
    return value.reshape(-1)[places].unique().numel() <= _FEW_VALUES
