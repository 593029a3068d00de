"""The error budget: what passes, what does not, and that nothing passes by accident."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright.judge.verify import BUDGETS, Comparison, compare
from kernelwright.judge.verify.budget import UNIT_ROUNDOFF, unit_roundoff
from kernelwright.judge.verify.compare import measure_errors

U = UNIT_ROUNDOFF[torch.float32]


def _judge(
    got: torch.Tensor,
    want: torch.Tensor,
    own: torch.Tensor,
    *,
    scale: torch.Tensor | None = None,
    precision: str = "native",
) -> Comparison:
    def sensitivity() -> list | None:
        return None if scale is None else [scale]

    return compare([got], [want], [own], precision=precision, sensitivity=sensitivity)


def _truth(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 3000))
def test_the_reference_itself_passes_with_a_quarter_of_its_budget(seed: int, size: int) -> None:
    want = _truth(seed, size)
    own = (want * (1 + 3 * U * _truth(seed + 1, size))).float()
    found = _judge(own, want, own)
    assert found.ok
    assert found.error_over_budget <= 1 / BUDGETS.rms_ratio
    assert found.error_over_reference in (0.0, 1.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**40), st.floats(1e-9, 1e-2), st.floats(0.0, 1.0))
def test_a_smaller_error_never_does_worse(seed: int, size: float, share: float) -> None:
    want, noise = _truth(seed, 200), _truth(seed + 1, 200)
    own = want.float()
    large = _judge((want + size * noise).to(torch.float64), want, own.double())
    small = _judge((want + share * size * noise).to(torch.float64), want, own.double())
    assert small.error_over_budget <= large.error_over_budget * (1 + 1e-9)
    assert small.ok or not large.ok


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 4095), st.floats(1.01, 1e12), st.booleans())
def test_one_element_beyond_its_room_is_refused(
    seed: int, at: int, excess: float, up: bool
) -> None:
    want = _truth(seed, 4096)
    own = want.float()
    theirs = measure_errors(own, want).largest
    room = BUDGETS.max_ratio * theirs + 2 * U * abs(float(want[at])) + 2.0**-149
    got = want.clone()
    got[at] += room * excess * (1 if up else -1)
    found = _judge(got.float(), want, own)
    assume(abs(float(got.float()[at]) - float(want[at])) > room)
    assert not found.ok
    assert found.error_over_budget > 1


def test_one_ulp_is_allowed_where_the_reference_is_exact_and_two_are_not() -> None:
    own = torch.rand(500) + 1
    want = own.double()
    one = torch.nextafter(own, torch.tensor(9.0))
    found = _judge(one, want, own)
    assert found.ok
    assert math.isinf(found.error_over_reference)
    assert not _judge(torch.nextafter(one, torch.tensor(9.0)), want, own).ok


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 299), st.sampled_from([1.0, -1.0, 2.0**-20]))
def test_whole_numbers_that_the_reference_gets_exactly_are_demanded_exactly(
    seed: int, at: int, change: float
) -> None:
    want = torch.randint(-50, 50, (300,), generator=torch.Generator().manual_seed(seed)).double()
    own = want.float()
    assert _judge(own.clone(), want, own).ok
    got = own.clone()
    got[at] += change
    assume(float(got[at]) != float(own[at]))
    found = _judge(got, want, own, scale=torch.full_like(want, 1e12))
    assert not found.ok
    assert "the reference is exact" in found.reason


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 999))
def test_a_poisoned_element_is_refused(poison: float, seed: int, at: int) -> None:
    want = _truth(seed, 1000)
    got = want.float()
    got[at] = poison
    assert not _judge(got, want, want.float(), scale=torch.full_like(want, 1e30)).ok


@pytest.mark.parametrize(
    ("got", "want", "own", "ok"),
    [
        (math.nan, math.nan, math.nan, True),
        (math.inf, math.inf, math.inf, True),
        (-math.inf, math.inf, math.inf, False),
        (1.0, math.inf, math.inf, False),
        (1.0, math.nan, math.nan, False),
        (math.nan, 1.0, 1.0, False),
        (math.inf, math.nan, math.nan, False),
        (math.inf, 1e300, math.inf, True),
        (math.inf, 1e300, 1.0, True),
        (3.0, 3.0, math.inf, True),
        (math.inf, 3.0, math.inf, True),
        (2.0, 3.0, math.inf, False),
        (1.0, math.inf, 1.0, False),
    ],
    ids=str,
)
def test_special_values_stand_where_reference_or_truth_has_them(
    got: float, want: float, own: float, ok: bool
) -> None:
    rest = torch.linspace(1, 2, 9)
    truth = torch.cat([rest.double(), torch.tensor([want], dtype=torch.float64)])
    outputs, eager = (torch.cat([rest, torch.tensor([value])]) for value in (got, own))
    found = _judge(outputs, truth, eager, scale=torch.ones_like(truth))
    assert found.ok is ok, found.reason


def test_an_error_hidden_in_many_small_elements_is_refused() -> None:
    want = torch.full((10_000,), 1e-6, dtype=torch.float64)
    want[0] = 1.0
    own = want.float()
    got = own.clone()
    got[1:] = 0
    assert not _judge(got, want, own).ok


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrow_cast_is_refused_unless_its_class_is_declared(dtype: torch.dtype) -> None:
    want = _truth(3, 1000)
    got, own = want.to(dtype).float(), want.float()
    assert not _judge(got, want, own, scale=want.abs()).ok
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    assert _judge(got, want, own, scale=want.abs(), precision=name).ok
    assert not _judge(0 * got, want, own, scale=want.abs(), precision="tf32").ok


def test_the_condition_aware_bound_rescues_a_sum_of_another_order() -> None:
    # The reference happens to be exact, so nothing but k*u*S can let the other order pass.
    x = _truth(5, 64, 4096).float()
    want = x.double().sum(1)
    own = want.float()
    got = torch.zeros(64)
    for column in x.unbind(1):
        got += column
    assert not _judge(got, want, own).ok
    scale = x.double().abs().sum(1)
    found = _judge(got, want, own, scale=scale)
    assert found.ok
    assert 0 < found.error_over_budget <= 1
    assert not _judge(want.bfloat16().float(), want, own, scale=want.abs()).ok
    half = x.bfloat16().double().sum(1).float()
    assert not _judge(half, want, own, scale=scale).ok


def test_sensitivity_is_asked_for_only_when_it_is_needed() -> None:
    asked = []
    want = _truth(1, 100)

    def sensitivity() -> list:
        asked.append(1)
        return [want.abs(), want.abs()]

    own = want.float()
    for got, count in ((own, 0), (own + 1, 1)):
        compare([got] * 2, [want] * 2, [own] * 2, precision="native", sensitivity=sensitivity)
        assert len(asked) == count


def test_every_output_counts() -> None:
    want = _truth(1, 100)
    own = want.float()
    outputs = [own, own + 1]
    found = compare(outputs, [want] * 2, [own] * 2, precision="native", sensitivity=lambda: None)
    assert not found.ok
    assert found.reason.startswith("output 1 is off by 1")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 400), st.integers(1, 700))
def test_errors_are_those_of_numpy_whatever_the_layout(seed: int, rows: int, cols: int) -> None:
    want = _truth(seed, cols, rows).t()
    got = want.float()
    error = (got.double() - want).abs()
    found = measure_errors(got, want)
    assert found.largest == float(error.max())
    assert math.isclose(found.rms, float(error.square().mean().sqrt()), rel_tol=1e-9)


def test_outputs_without_elements_pass() -> None:
    empty = torch.empty(0, 3)
    assert _judge(empty, empty.double(), empty).ok


def test_a_class_loosens_by_its_roundoff_alone() -> None:
    assert unit_roundoff(torch.float32, "native") == 2.0**-24
    assert unit_roundoff(torch.float32, "tf32") == 2.0**-11
    assert unit_roundoff(torch.bfloat16, "tf32") == 2.0**-8
    assert unit_roundoff(torch.float16, "strict") == 2.0**-11


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.floats(1.0, 4.0))
def test_what_underflows_before_a_last_factor_is_no_error(seed: int, factor: float) -> None:
    inside = _truth(seed, 1000).abs() * 1e-43
    want = inside * factor
    got, own = inside.float() * factor, want.float()
    assert _judge(got, want, own, scale=want.abs()).ok
    assert not _judge(torch.zeros(1000), want * 1e8, own * 1e8, scale=want.abs() * 1e8).ok
