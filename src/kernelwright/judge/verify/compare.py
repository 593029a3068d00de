"""Compares one call's outputs with the truth. Fails closed: anything not shown right is wrong."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from kernelwright.judge.verify.budget import (
    BUDGETS,
    UNIT_ROUNDOFF,
    Comparison,
    over,
    unit_roundoff,
)
from kernelwright.judge.verify.discrete import Derived, Origin, Scale, compare_discrete

Sensitivity = Callable[[], list[Scale] | None]
_CHUNK, _DEVICE_CHUNK = 1 << 17, 1 << 27
"""Elements per step: a megabyte of float64, so that the passes over it stay in a core's cache. On a
device a step costs a wait, so there they are long."""


class Errors(NamedTuple):
    """RMS and maximum of |output - truth| over the finite elements."""

    rms: float
    largest: float


def compare(
    outputs: list[torch.Tensor],
    truth: list[torch.Tensor],
    reference: list[torch.Tensor],
    *,
    precision: str,
    sensitivity: Sensitivity,
    yardstick: Yardstick | None = None,
) -> Comparison:
    """Judges all outputs of one call.

    Args:
        outputs: what the Candidate returned, shapes and dtypes already checked.
        truth: the fp64 oracle on the same inputs.
        reference: what eager returned on the same inputs; its error is the budget.
        precision: the Task's class; a looser one widens u.
        sensitivity: S per output element, asked for only when the plain test fails.
        yardstick: of truth and reference, where the caller has it already.
    """
    yardstick = yardstick or measure_yardstick(truth, reference)
    scales = functools.cache(sensitivity)
    worst = Comparison(True, "", 0.0, 0.0)
    for at, (got, want, own) in enumerate(zip(outputs, truth, reference, strict=True)):
        name = f"output {at}" if len(outputs) > 1 else "the output"
        if got.is_floating_point():
            errors = yardstick.own[at], yardstick.size[at]
            found = _compare_floating(name, got, want, own, errors=errors, precision=precision)
            scale = scales() if not found.ok and math.isfinite(found.error_over_budget) else None
            if scale is not None:
                found = _within_condition(found, got, want, scale[at], precision=precision)
        else:
            origin = functools.partial(_origin, scales, at)
            found = compare_discrete(name, got, want, own, origin=origin, precision=precision)
        worst = Comparison(
            found.ok,
            found.reason,
            max(worst.error_over_budget, found.error_over_budget),
            max(worst.error_over_reference, found.error_over_reference),
        )
        if not found.ok:
            return worst
    return worst


def _origin(scales: Sensitivity, at: int) -> Origin | None:
    found = scales()
    if found is None:
        return None
    origin = found[at]
    return origin if not isinstance(origin, torch.Tensor) else Derived(list)


class Yardstick(NamedTuple):
    """What the reference's outputs say about the budget of one call, per output."""

    own: tuple[Errors, ...]
    """The reference's error."""
    size: tuple[Errors, ...]
    """RMS and maximum of |truth|."""


def measure_yardstick(truth: list[torch.Tensor], reference: list[torch.Tensor]) -> Yardstick:
    """Computed once per set of inputs, used for every Candidate that is shown them."""
    own, size = [], []
    for want, theirs in zip(truth, reference, strict=True):
        floating = theirs.is_floating_point()  # an index or flag has no error, it is right or wrong
        zero = torch.zeros(1, dtype=theirs.dtype, device=theirs.device)
        own.append(measure_errors(theirs, want) if floating else Errors(0.0, 0.0))
        size.append(measure_errors(zero, want) if floating else Errors(0.0, 0.0))
    return Yardstick(tuple(own), tuple(size))


def measure_errors(got: torch.Tensor, truth: torch.Tensor) -> Errors:
    """RMS and largest |got - truth| in float64; not finite where either has NaN or Inf."""
    want = truth.reshape(-1)
    mine = got.reshape(-1).expand(want.shape)
    chunk = _chunk(want)
    work = torch.empty(min(chunk, want.numel()), dtype=torch.float64, device=want.device)
    squares, largest = 0.0, 0.0
    with _one_thread():
        for start in range(0, want.numel(), chunk):
            part = slice(start, start + chunk)
            error = work[: want[part].numel()]
            torch.sub(want[part], mine[part], out=error)
            squares += float(torch.dot(error, error))
            low, high = torch.aminmax(error)
            largest = max(largest, -float(low), float(high))
    if math.isnan(squares):
        largest = math.nan
    return Errors(math.sqrt(squares / max(want.numel(), 1)), largest)


def _chunk(value: torch.Tensor) -> int:
    return _CHUNK if value.device.type == "cpu" else _DEVICE_CHUNK


@contextmanager
def _one_thread() -> Generator[None]:
    """Steps this short gain nothing from more threads, and on busy cores wait at each barrier."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _finite_errors(got: torch.Tensor, truth: torch.Tensor) -> Errors:
    """As `measure_errors`, over the places where both are finite."""
    both = torch.isfinite(got) & torch.isfinite(truth)
    return measure_errors(got[both], truth[both])


def _compare_floating(
    name: str,
    got: torch.Tensor,
    want: torch.Tensor,
    own: torch.Tensor,
    *,
    errors: tuple[Errors, Errors],
    precision: str,
) -> Comparison:
    mine, (theirs, size) = measure_errors(got, want), errors
    if not (math.isfinite(mine.rms) and math.isfinite(theirs.rms)):
        refused = _compare_special(name, got, want, own)
        if refused is not None:
            return refused
        finite = torch.isfinite(got)
        got, want, own = got[finite], want[finite], own[finite]
        mine, theirs = measure_errors(got, want), _finite_errors(own, want)
        size = measure_errors(torch.zeros_like(got), want)
        if not (math.isfinite(mine.rms) and math.isfinite(theirs.rms)):
            reason = f"{name} is finite where the truth is not"
            return Comparison(False, reason, math.inf, math.inf)
    if mine.largest == 0.0:
        return Comparison(True, "", 0.0, 0.0)
    if theirs.largest == 0.0 and _is_exact(want, precision):
        reason = f"{name} is off by {mine.largest:.3g} where the reference is exact"
        return Comparison(False, reason, math.inf, math.inf)
    ulp = 2 * BUDGETS.output_ulps * UNIT_ROUNDOFF[got.dtype]
    rms_budget = BUDGETS.rms_ratio * theirs.rms + ulp * size.rms
    room = BUDGETS.max_ratio * theirs.largest
    used = over(mine.largest, room)
    if used > 1.0:
        used = _largest_share(got, want, room=room, ulp=ulp)
    used = max(used, over(mine.rms, rms_budget))
    ratio = over(mine.rms, theirs.rms)
    if used <= 1.0:
        return Comparison(True, "", used, ratio)
    reason = (
        f"{name} is off by {mine.largest:.3g} (RMS {mine.rms:.3g}), the reference itself by "
        f"{theirs.largest:.3g} (RMS {theirs.rms:.3g}): {used:.3g} times the budget"
    )
    return Comparison(False, reason, used, ratio)


def _is_exact(want: torch.Tensor, precision: str) -> bool:
    """Whether all of the truth is whole: then no order of adding small whole numbers rounds.

    A class that rounds its operands is not asked for it, since the reference then does not either.
    """
    return precision in ("native", "strict") and bool((want == want.round()).all())


def _largest_share(got: torch.Tensor, want: torch.Tensor, *, room: float, ulp: float) -> float:
    """The largest error as a share of `room` and one unit in the last place of its own element."""
    floor = room + _smallest_step(got.dtype)
    mine, truth, largest = got.reshape(-1), want.reshape(-1), 0.0
    chunk = _chunk(truth)
    for start in range(0, truth.numel(), chunk):
        part = truth[start : start + chunk]
        error = torch.sub(part, mine[start : start + chunk]).abs_()
        largest = max(largest, float(error.div_(part.abs().mul_(ulp).add_(floor)).max()))
    return largest


def _smallest_step(dtype: torch.dtype) -> float:
    """Below the normal range the spacing of floating-point numbers no longer shrinks.

    The output is rounded to it once; an intermediate result that underflowed was rounded to its
    own, and later factors carry that on. Kernels of 16-bit outputs compute in float32.
    """
    own = torch.finfo(dtype)
    working = torch.finfo(torch.promote_types(dtype, torch.float32))
    inside = BUDGETS.underflow_steps * working.smallest_normal * working.eps
    return own.smallest_normal * own.eps + inside


def _within_condition(
    found: Comparison,
    got: torch.Tensor,
    want: torch.Tensor,
    scale: Scale,
    *,
    precision: str,
) -> Comparison:
    """The other way to be right: every error within k*u*S, and their RMS within a quarter of it."""
    assert isinstance(scale, torch.Tensor)
    u = unit_roundoff(got.dtype, precision)
    ulp = 2 * BUDGETS.output_ulps * UNIT_ROUNDOFF[got.dtype]
    floor = _smallest_step(got.dtype)
    mine, truth, sizes = got.reshape(-1), want.reshape(-1), scale.reshape(-1)
    largest, squares, chunk = 0.0, [0.0, 0.0, 0.0], _chunk(truth)
    for start in range(0, truth.numel(), chunk):
        part = slice(start, start + chunk)
        error = torch.sub(truth[part], mine[part]).abs_().nan_to_num_(0.0, 0.0, 0.0)
        size = truth[part].abs().nan_to_num_(0.0, 0.0, 0.0)
        for at, one in enumerate((error, sizes[part], size)):
            squares[at] += float(torch.dot(one, one))
        bound = size.mul_(ulp).add_(sizes[part], alpha=BUDGETS.condition_max * u)
        largest = max(largest, float(error.div_(bound.add_(floor)).max()))
        if largest > 1.0:
            return found
    error_rms, scale_rms, size_rms = (math.sqrt(s / truth.numel()) for s in squares)
    rms_budget = BUDGETS.condition_rms * u * scale_rms + ulp * size_rms + floor
    used = max(largest, over(error_rms, rms_budget))
    return Comparison(True, "", used, found.error_over_reference) if used <= 1.0 else found


def _compare_special(
    name: str, got: torch.Tensor, want: torch.Tensor, own: torch.Tensor
) -> Comparison | None:
    """NaN and Inf must stand exactly where the reference or the rounded truth has them.

    Both, because the reference may overflow where a better kernel does not.
    """
    right = _stands_as(got, own) | _stands_as(got, want.to(got.dtype))
    wrong = int((~right).sum())
    if wrong == 0:
        return None
    reason = f"{name} has NaN or Inf at {wrong} places where the reference has none, or the reverse"
    return Comparison(False, reason, math.inf, math.inf)


def _stands_as(got: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    finite = torch.isfinite(got) & torch.isfinite(other)
    return finite | (torch.isnan(got) & torch.isnan(other)) | (got == other)
