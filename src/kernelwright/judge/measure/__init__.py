"""How fast: one timed call, pairs of calls, intervals, resolution, roofline.

In: frozen workers on a `Bench` and fresh `Draw`s. Out: `PairedTimes`, whose numbers are Intervals.
"""

from kernelwright.judge.measure.arm import Arm, Draw, Fault, Sample, describe
from kernelwright.judge.measure.bench import Bench
from kernelwright.judge.measure.device_bench import DeviceBench
from kernelwright.judge.measure.occupancy import Occupancy
from kernelwright.judge.measure.pairs import Pair, PairedTimes, compare_arms, take_pair
from kernelwright.judge.measure.statistics import (
    half_width,
    median_interval,
    median_ranks,
    ratio_interval,
    sign_test,
)

__all__ = [
    "Arm",
    "Bench",
    "DeviceBench",
    "Draw",
    "Fault",
    "Occupancy",
    "Pair",
    "PairedTimes",
    "Sample",
    "compare_arms",
    "describe",
    "half_width",
    "median_interval",
    "median_ranks",
    "ratio_interval",
    "sign_test",
    "take_pair",
]
