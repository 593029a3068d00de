"""Right or wrong: an fp64 oracle, an error budget, and whether that budget could be fooled.

In: a Task's reference and the outputs of a call. Out: a `Comparison`, and a `SanityReport` that
says which outputs that ignore the work the same budget would have let through.
"""

from kernelwright.judge.verify.budget import BUDGETS, Budgets, Comparison
from kernelwright.judge.verify.compare import Yardstick, compare, measure_yardstick
from kernelwright.judge.verify.oracle import Oracle
from kernelwright.judge.verify.sanity import SanityReport, sanity_gate, tells_work_from_none

__all__ = [
    "BUDGETS",
    "Budgets",
    "Comparison",
    "Oracle",
    "SanityReport",
    "Yardstick",
    "compare",
    "measure_yardstick",
    "sanity_gate",
    "tells_work_from_none",
]
