"""Claims with an error rate: order-statistic intervals and the sign test. No distribution assumed.

The unit is a block of adjacent calls on the same fresh inputs; `log_ratios` are
ln(baseline time / candidate time). Sources: order-statistic interval for the median, Conover,
Practical Nonparametric Statistics, 3.2; sign test, 3.4; design effect, Kish, Survey Sampling, 5.4.

Blocks of one pair of processes share where those processes' memory lies, which the spread among
them does not show: the same kernel against itself came out off by 0.1 to 0.2 % in caches and by 1
to 2 % at memory speed, and stayed so until one of the two was started anew. That is as if the
blocks were correlated by `_WITHIN_PROCESS`, so the interval is widened by the root of the design
effect 1 + (n - 1) rho. More pairs narrow it only down to that floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from kernelwright.core.record import Interval

_WITHIN_PROCESS = 0.03
"""Correlation of blocks within one pair of processes, from A/A and planted studies."""


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
    """Median speed-up and its bounds, as ratios, for blocks of one pair of processes."""
    widened = clustered_confidence(len(log_ratios), confidence)
    low, mid, high = median_interval(log_ratios, widened)
    return Interval(math.exp(low), math.exp(mid), math.exp(high))


def clustered_confidence(n: int, confidence: float) -> float:
    """What independent blocks would have to reach, so that `n` correlated ones reach `confidence`.

    Both are two-sided normal levels; the second is the first times the root of the design effect.
    """
    design_effect = 1 + (n - 1) * _WITHIN_PROCESS
    deviations = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(design_effect)
    return 2 * NormalDist().cdf(deviations) - 1


def sign_test(log_ratios: Sequence[float], threshold: float) -> float:
    """Level at which "the median ratio exceeds `threshold`" holds: P(as many by chance)."""
    above = sum(ratio > math.log(threshold) for ratio in log_ratios)
    return binomial_tail(len(log_ratios), above)


def half_width(interval: Interval) -> float:
    """Half the width of a ratio interval, as a ratio minus 1: what the machine can tell apart."""
    return math.exp((math.log(interval.high) - math.log(interval.low)) / 2) - 1
