"""Adjacent pairs in AB/BA order with fresh inputs, and what they say.

The unit of evidence is a block of two pairs, AB and BA, whose log-ratios are averaged: whatever
going first is worth cancels in it. Single pairs would form two clusters, and the median of an odd
number of them falls into the larger one: kernels limited by memory then came out 1.6 % slower than
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.record import Interval
from kernelwright.core.verdict import block_log_ratios
from kernelwright.judge.measure.arm import Arm, Draw, Fault, Sample
from kernelwright.judge.measure.statistics import (
    half_width,
    median_interval,
    ratio_interval,
    sign_test,
)


class Runs(Protocol):
    """What a bench is to a pair: it runs an arm on a draw."""

    def run_primed(self, arm: Arm, draw: Draw, *, keep: bool) -> Sample | Fault:
        """See `Bench.run_primed`."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms on the same inputs, one right after the other."""

    baseline: Sample
    candidate: Sample


@dataclass(slots=True)
class PairedTimes:
    """All pairs of one baseline and one candidate. None is ever dropped."""

    baseline: str
    pairs: list[Pair] = field(default_factory=list)
    foreign_cores: float = 0.0
    """Cores that others kept busy meanwhile, on average."""

    @property
    def samples_ns(self) -> tuple[tuple[int, int], ...]:
        """Wall times of every pair, baseline then candidate, in the order taken."""
        return tuple((pair.baseline.wall_ns, pair.candidate.wall_ns) for pair in self.pairs)

    @property
    def log_ratios(self) -> list[float]:
        """One ln(baseline / candidate) per block, in order."""
        return block_log_ratios(self.samples_ns)

    @property
    def interval(self) -> Interval:
        """Median speed-up over the baseline with its 95 % bounds."""
        return ratio_interval(self.log_ratios)

    @property
    def resolution(self) -> float:
        """Half-width of the interval, as a ratio minus 1."""
        return half_width(self.interval)

    def p_faster(self, threshold: float) -> float:
        """Sign-test level of "faster than `threshold` times"."""
        return sign_test(self.log_ratios, threshold)

    def baseline_ns(self) -> Interval:
        """Median wall time of the baseline, ns."""
        return median_interval([float(pair.baseline.wall_ns) for pair in self.pairs])

    def candidate_ns(self) -> Interval:
        """Median wall time of the candidate, ns."""
        return median_interval([float(pair.candidate.wall_ns) for pair in self.pairs])


def take_pair(
    bench: Runs, baseline: Arm, candidate: Arm, *, draw: Draw, candidate_first: bool, keep: bool
) -> Pair | Fault:
    """Runs both arms on one draw. A fault of either is returned with the arm's name in front."""
    samples: dict[str, Sample] = {}
    order = (candidate, baseline) if candidate_first else (baseline, candidate)
    for arm in order:
        sample = bench.run_primed(arm, draw, keep=keep)
        if isinstance(sample, Fault):
            return sample if arm is candidate else Fault("baseline", f"{arm.name}: {sample.reason}")
        samples[arm.name if arm is baseline else "candidate"] = sample
    return Pair(samples[baseline.name], samples["candidate"])


def compare_arms(
    bench: Runs, baseline: Arm, candidate: Arm, *, draws: Callable[[int], Draw], pairs: int
) -> PairedTimes | Fault:
    """Times two trusted arms against each other, unchecked: A/A, and one baseline with another."""
    times = PairedTimes(baseline.name)
    for index in range(pairs):
        pair = take_pair(
            bench,
            baseline,
            candidate,
            draw=draws(index),
            candidate_first=index % 2 == 1,
            keep=False,
        )
        if isinstance(pair, Fault):
            return pair
        times.pairs.append(pair)
    return times
