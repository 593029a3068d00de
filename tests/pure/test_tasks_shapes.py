"""Shapes stay inside the domain, and cost no more than about what the timed one costs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.tasks.shapes import (
    boundary_shapes,
    long_shapes,
    near_shape,
    sample_shape,
)

Case = tuple[dict[str, tuple[int, int]], dict[str, int]]


@st.composite
def domains(draw: st.DrawFn) -> Case:
    domain, default = {}, {}
    for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)):
        low = draw(st.integers(1, 5))
        high = draw(st.integers(low, 10_000))
        domain[name] = (low, high)
        default[name] = draw(st.integers(low, high))
    return domain, default


def _cost(sizes: dict[str, int]) -> float:
    return float(np.prod(list(sizes.values()))) + max(sizes.values()) ** 2


@settings(max_examples=200, deadline=None)
@given(domains(), st.integers(0, 2**32))
def test_samples_are_inside_and_affordable(case: Case, seed: int) -> None:
    domain, default = case
    shape = sample_shape(domain, default, np.random.default_rng(seed), cost=_cost)
    assert shape.keys() == default.keys()
    assert all(low <= shape[name] <= high for name, (low, high) in domain.items())
    cheapest = {name: low for name, (low, _) in domain.items()}
    assert _cost(shape) <= max(1.5 * _cost(default), _cost(cheapest))


def test_samples_reach_odd_sizes_primes_and_bounds() -> None:
    rng = np.random.default_rng(0)
    domain, default = {"rows": (1, 64), "cols": (1, 4096)}, {"rows": 16, "cols": 512}
    drawn = [sample_shape(domain, default, rng, cost=_cost) for _ in range(400)]
    cols = {shape["cols"] for shape in drawn}
    assert 1 in cols
    assert cols & {7, 13, 31, 61, 127, 251}
    assert any(size % 2 and size > 255 for size in cols)
    assert any(shape["rows"] == 64 for shape in drawn)
    volumes = [shape["rows"] * shape["cols"] for shape in drawn]
    assert np.mean([volume > 4096 for volume in volumes]) > 0.4


def test_boundary_shapes_touch_each_lower_bound() -> None:
    domain, default = {"a": (1, 9), "b": (2, 9)}, {"a": 5, "b": 6}
    assert boundary_shapes(domain, default) == [
        {"a": 1, "b": 6},
        {"a": 5, "b": 2},
        {"a": 1, "b": 2},
    ]
    assert boundary_shapes({}, {}) == []


@settings(max_examples=200, deadline=None)
@given(domains(), st.integers(0, 2**32))
def test_long_shapes_are_longer_in_one_size_and_cheaper_than_the_timed_one(
    case: Case, seed: int
) -> None:
    domain, default = case
    for shape in long_shapes(domain, default, np.random.default_rng(seed), cost=_cost):
        assert all(low <= shape[name] <= high for name, (low, high) in domain.items())
        assert sum(shape[name] > default[name] for name in domain) == 1
        assert _cost(shape) <= _cost(default) / 2


def test_long_shapes_reach_the_upper_bound_where_it_is_cheap() -> None:
    domain, default = {"rows": (1, 8192), "cols": (1, 4096)}, {"rows": 512, "cols": 512}
    rows, cols = long_shapes(domain, default, np.random.default_rng(0), cost=lambda s: 0.0)
    assert rows["rows"] > 8188
    assert rows["cols"] == 3
    assert cols["cols"] > 4092


@settings(max_examples=200, deadline=None)
@given(domains(), st.integers(0, 2**32))
def test_a_near_shape_is_a_little_smaller(case: Case, seed: int) -> None:
    domain, default = case
    near = near_shape(domain, default, np.random.default_rng(seed))
    if near is None:
        assert all(default[name] == low for name, (low, _) in domain.items())
        return
    assert near != default
    for name, size in near.items():
        assert max(domain[name][0], default[name] * 0.9 - 1) <= size <= default[name]
