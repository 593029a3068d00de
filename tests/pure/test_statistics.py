import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.measure.statistics import (
    binomial_tail,
    half_width,
    median_interval,
    median_ranks,
    ratio_interval,
    sign_test,
)


@given(st.integers(6, 300))
def test_ranks_are_the_narrowest_that_reach_the_confidence(n):
    low, high = median_ranks(n)
    assert low + high == n + 1
    assert 1 - 2 * binomial_tail(n, high) >= 0.95
    assert 1 - 2 * binomial_tail(n, high - 1) < 0.95


def test_ranks_agree_with_the_published_table():
    # Conover, table of order-statistic intervals for the median at 95 %.
    assert median_ranks(10) == (2, 9)
    assert median_ranks(20) == (6, 15)
    assert median_ranks(100) == (40, 61)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60))
def test_the_interval_brackets_the_median(values):
    low, mid, high = median_interval(values)
    assert min(values) <= low <= mid <= high <= max(values)


@pytest.mark.parametrize(("n", "k"), [(20, 16), (40, 28), (60, 40), (100, 63), (200, 117)])
def test_the_sign_test_needs_the_published_number_of_wins_at_one_percent(n, k):
    wins = [math.log(1.06)] * k + [0.0] * (n - k)
    fewer = [math.log(1.06)] * (k - 1) + [0.0] * (n - k + 1)
    assert sign_test(wins, 1.05) <= 0.01 < sign_test(fewer, 1.05)


def test_an_interval_of_equal_ratios_has_no_width():
    interval = ratio_interval([math.log(2.0)] * 9)
    assert interval == pytest.approx((2.0, 2.0, 2.0))
    assert half_width(interval) == pytest.approx(0.0)


@pytest.mark.parametrize("blocks", [25, 75])
def test_blocks_that_share_a_process_effect_still_cover_the_truth(blocks):
    rng = np.random.default_rng(blocks)
    verdicts = 2000
    shared = rng.normal(0, math.sqrt(0.03), (verdicts, 1))
    times = shared + rng.normal(0, math.sqrt(0.97), (verdicts, blocks))
    covered = [low <= 1 <= high for low, _, high in map(ratio_interval, times.tolist())]
    alone = [low <= 0 <= high for low, _, high in map(median_interval, times.tolist())]
    assert 0.935 < np.mean(covered) < 0.99
    assert np.mean(alone) < 0.93
