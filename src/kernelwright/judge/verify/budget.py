"""How much error a right answer may have. Frozen: changing a number here changes every Verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

# Unit roundoff, half a machine epsilon: Higham, Accuracy and Stability, 2nd ed., 2.1.
UNIT_ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
_CLASS_ROUNDOFF = {
    "tf32": 2.0**-11,
    "bf16": 2.0**-8,
    "fp16": 2.0**-11,
    "fp8": 2.0**-4,
    "fp4": 2.0**-2,
}


@dataclass(frozen=True, slots=True)
class Budgets:
    """Multiples of the reference's own error, and of the condition-aware bound u*S.

    Honest kernels reached 2.5 times the reference's RMS error; bf16 operands reach 10^3 and more.
    """

    rms_ratio: float = 4.0
    max_ratio: float = 8.0
    condition_max: float = 32.0
    condition_rms: float = 8.0
    growth_random: float = 1 / 16
    growth_coherent: float = 1 / 32
    """Of both, per square root of the number of terms and per term; see `terms`. Plain float32
    loops over up to 65,536 random terms reached an RMS of 0.3 sqrt(n) u S, over equal ones 0.14
    n u S."""
    underflow_steps: float = 16.0
    """Smallest subnormal numbers of the working precision; see `compare`."""
    output_ulps: float = 1.0
    """The output's own rounding is always allowed: one ulp, which is 2*u*|truth| at most."""


BUDGETS = Budgets()


class Comparison(NamedTuple):
    """What one comparison found."""

    ok: bool
    reason: str
    error_over_budget: float
    """At most 1 where ok: the largest of the two tests of the easier criterion."""
    error_over_reference: float
    """RMS error over the reference's own RMS error; inf where that is 0 and this is not."""


def unit_roundoff(dtype: torch.dtype, precision: str) -> float:
    """U of the output's dtype, or of the precision class where that is looser."""
    return max(UNIT_ROUNDOFF[dtype], _CLASS_ROUNDOFF.get(precision, 0.0))


def over(error: float, budget: float) -> float:
    """Error as a multiple of its budget; infinite where nothing was allowed."""
    if error == 0.0:
        return 0.0
    return error / budget if budget > 0.0 else math.inf
