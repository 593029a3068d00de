"""Rewards: pure functions of Verdicts, by name."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelwright.core.verdict import (
    WIN_THRESHOLD,
    Accepted,
    Inconclusive,
    Measured,
    Rejected,
    Verdict,
)


def milestone(verdict: Verdict) -> float | None:
    """CUDA Agent's steps (arXiv 2602.24286): -1 wrong, 1 right, 2 beats eager, 3 beats all.

    "Beats" means the whole interval above 1.05. None where the Verdict is Inconclusive or of a
    weakened judge.
    """
    if verdict.provenance.defences_off:
        return None
    match verdict.outcome:
        case Rejected():
            return -1.0
        case Inconclusive():
            return None
        case Accepted(timing=Measured(against=against)):
            beaten = {a.baseline for a in against if a.speedup.low > WIN_THRESHOLD}
            if len(beaten) == len(against) and verdict.win:
                return 3.0
            return 2.0 if "eager" in beaten else 1.0
        case _:
            return 1.0


def ratio(verdict: Verdict) -> float | None:
    """Low end of the speed-up over the binding baseline; 1 where unresolved, 0 where rejected.

    None as in `milestone`.
    """
    if verdict.provenance.defences_off:
        return None
    match verdict.outcome:
        case Rejected():
            return 0.0
        case Inconclusive():
            return None
        case Accepted(timing=Measured(interval=gain)):
            return gain.low
        case _:
            return 1.0


def log(verdict: Verdict) -> float | None:
    """Base-2 logarithm of `ratio`, not below 0 for a right Candidate; -1 where rejected.

    None as in `milestone`.
    """
    value = ratio(verdict)
    if value is None:
        return None
    return -1.0 if value == 0.0 else max(math.log2(value), 0.0)


REWARDS: dict[str, Callable[[Verdict], float | None]] = {
    "milestone": milestone,
    "ratio": ratio,
    "log": log,
}
