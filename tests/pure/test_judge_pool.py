"""What screening shows to one Candidate after another."""

import itertools

import numpy as np
import pytest

from kernelwright.judge.measure import Draw
from kernelwright.judge.pool import Pool

FAMILIES = ["nominal", "shifted", "ties", "impulse", "heavy_tail", "zero_mean"]


@pytest.fixture
def made():
    return []


@pytest.fixture
def pool(made):
    def fresh(family):
        made.append(Draw(family, [], len(made)))
        return made[-1]

    return Pool(fresh, FAMILIES, np.random.default_rng(5))


def take(source, count):
    return list(itertools.islice(source, count))


def test_no_worker_sees_a_draw_twice(pool):
    for _ in range(5):
        seen = [*pool.screens(3), *take(pool.timed(), 25), *take(pool.checked(), 9)]
        assert len({id(one) for one in seen}) == len(seen)


def test_later_verdicts_reuse_draws_and_renew_some(pool, made):
    first = {id(one) for one in take(pool.timed(), 11)}
    before = len(made)
    verdicts = [{id(one) for one in take(pool.timed(), 11)} for _ in range(40)]
    assert 0 < len(made) - before < 20
    assert len(verdicts[0] & first) >= 9
    assert len(verdicts[-1] & first) < 9


def test_memory_is_bounded(pool, made):
    take(pool.timed(), 100)
    before = len(made)
    again = take(pool.timed(), 100)
    assert len(made) - before > 75
    assert len({id(one) for one in again}) == 100


def test_screens_are_of_different_families_and_all_have_their_turn(pool):
    met = set()
    for _ in range(60):
        families = [one.family for one in pool.screens(3)]
        assert len(set(families)) == 3
        met |= set(families)
    assert met == set(FAMILIES)


def test_more_screens_than_families_means_all(pool):
    assert sorted(one.family for one in pool.screens(99)) == sorted(FAMILIES)
