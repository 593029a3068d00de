"""Claims with an error rate: order-statistic intervals and the sign test. No distribution assumed.

The unit is a block of adjacent calls on the same fresh inputs; `log_ratios` are
ln(baseline time / candidate time). Sources: order-statistic interval for the median, Conover,
Practical Nonparametric Statistics, 3.2; sign test, 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelwright.core.record import Interval


def binomial_tail(n: int, k: int) -> float:
    """P(X >= k) for X ~ Binomial(n, 1/2), exactly."""
    return sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n


def median_ranks(n: int, confidence: float = 0.95) -> tuple[int, int]:
    """1-based ranks (l, u): the l-th and u-th smallest bound the median with that confidence.

    The narrowest symmetric choice whose exact coverage 1 - 2 P(X >= u) reaches `confidence`; for
    n < 6 none reaches 95 % and the extremes are returned.
    """
    for low in range(n // 2, 0, -1):
        if 1 - 2 * binomial_tail(n, n + 1 - low) >= confidence:
            return low, n + 1 - low
    return 1, n


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Median with its order-statistic interval, in the unit of `values`. Needs at least one."""
    ordered = sorted(values)
    n = len(ordered)
    low, high = median_ranks(n, confidence)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return Interval(ordered[low - 1], middle, ordered[high - 1])


def ratio_interval(log_ratios: Sequence[float], confidence: float = 0.95) -> Interval:
    """Median speed-up and its bounds, as ratios."""
    low, mid, high = median_interval(log_ratios, confidence)
    return Interval(math.exp(low), math.exp(mid), math.exp(high))


def sign_test(log_ratios: Sequence[float], threshold: float) -> float:
    """Level at which "the median ratio exceeds `threshold`" holds: P(as many by chance)."""
    above = sum(ratio > math.log(threshold) for ratio in log_ratios)
    return binomial_tail(len(log_ratios), above)


def half_width(interval: Interval) -> float:
    """Half the width of a ratio interval, as a ratio minus 1: what the machine can tell apart."""
    return math.exp((math.log(interval.high) - math.log(interval.low)) / 2) - 1
