"""Blocks of two pairs: what going first is worth cancels."""

import numpy as np
import pytest

from kernelwright.judge.measure import Pair, PairedTimes, Sample


def sample(wall_ns):
    return Sample(int(wall_ns), 0, 0, 0, None)


def timed(true_ratio, count, *, first_costs, noise, rng):
    """Baseline and candidate in AB/BA order, where the first of a pair is slower."""
    times = PairedTimes("eager")
    for index in range(count):
        base, mine = 1e7 * true_ratio, 1e7
        if index % 2:
            mine *= first_costs
        else:
            base *= first_costs
        jitter = np.exp(rng.normal(0, noise, 2))
        times.pairs.append(Pair(sample(base * jitter[0]), sample(mine * jitter[1])))
    return times


@pytest.mark.parametrize("first_costs", [0.9, 1.0, 1.3])
@pytest.mark.parametrize("true_ratio", [1.0, 1.1])
def test_the_interval_covers_the_truth_whoever_goes_first(first_costs, true_ratio):
    rng = np.random.default_rng(7)
    made = [
        timed(true_ratio, 50, first_costs=first_costs, noise=0.02, rng=rng).interval
        for _ in range(300)
    ]
    held = sum(low <= true_ratio <= high for low, _, high in made)
    assert held / 300 > 0.92
    assert abs(np.median([mid for _, mid, _ in made]) / true_ratio - 1) < 0.002


def test_a_single_pair_stands_for_itself():
    times = timed(1.5, 1, first_costs=1.0, noise=0.0, rng=np.random.default_rng(1))
    assert times.interval.mid == pytest.approx(1.5)
