"""How much error a right answer may have. Frozen: changing a number here changes every Verdict."""

from __future__ import annotations

from dataclasses import dataclass

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
    output_ulps: float = 1.0
    """The output's own rounding is always allowed, in units of u*|truth| times two (one ulp)."""


BUDGETS = Budgets()


def unit_roundoff(dtype: torch.dtype, precision: str) -> float:
    """U of the output's dtype, or of the precision class where that is looser."""
    return max(UNIT_ROUNDOFF[dtype], _CLASS_ROUNDOFF.get(precision, 0.0))
