"""Compares one call's outputs with the truth. Fails closed: anything not shown right is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from kernelwright.judge.verify.budget import BUDGETS, unit_roundoff

_CHUNK = 1 << 17
"""Elements per step: a megabyte of float64, so that the passes over it stay in a core's cache."""

Sensitivity = Callable[[], list[torch.Tensor] | None]


class Comparison(NamedTuple):
    """What one comparison found."""

    ok: bool
    reason: str
    error_over_budget: float
    """At most 1 where ok: the largest of the two tests of the easier criterion."""
    error_over_reference: float
    """RMS error over the reference's own RMS error; inf where that is 0 and this is not."""


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
    worst = Comparison(True, "", 0.0, 0.0)
    scales: list[torch.Tensor] | None = None
    for at, (got, want, own) in enumerate(zip(outputs, truth, reference, strict=True)):
        name = f"output {at}" if len(outputs) > 1 else "the output"
        if not got.is_floating_point():
            found = _compare_discrete(name, got, want, own)
        else:
            found = _compare_floating(
                name,
                got,
                want,
                own,
                theirs=yardstick.own[at],
                size=yardstick.size[at],
                precision=precision,
            )
            if not found.ok and math.isfinite(found.error_over_budget):
                scales = scales or sensitivity()
                if scales is not None:
                    found = _within_condition(found, got, want, scales[at], precision=precision)
        worst = Comparison(
            found.ok,
            found.reason,
            max(worst.error_over_budget, found.error_over_budget),
            max(worst.error_over_reference, found.error_over_reference),
        )
        if not found.ok:
            return worst
    return worst


class Yardstick(NamedTuple):
    """What the reference's outputs say about the budget of one call, per output."""

    own: tuple[Errors, ...]
    """The reference's error."""
    size: tuple[Errors, ...]
    """RMS and maximum of |truth|."""


def measure_yardstick(truth: list[torch.Tensor], reference: list[torch.Tensor]) -> Yardstick:
    """Computed once per set of inputs, used for every Candidate that is shown them."""
    pairs = list(zip(truth, reference, strict=True))
    return Yardstick(
        tuple(measure_errors(own, want) for want, own in pairs),
        tuple(measure_errors(torch.zeros(1, dtype=own.dtype), want) for want, own in pairs),
    )


def measure_errors(got: torch.Tensor, truth: torch.Tensor) -> Errors:
    """RMS and largest |got - truth| in float64; not finite where either has NaN or Inf."""
    want = truth.reshape(-1)
    mine = got.reshape(-1).expand(want.shape)
    work = torch.empty(min(_CHUNK, want.numel()), dtype=torch.float64)
    squares, largest = 0.0, 0.0
    for start in range(0, want.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        error = work[: want[part].numel()]
        torch.sub(want[part], mine[part], out=error)
        squares += float(torch.dot(error, error))
        largest = max(largest, float(torch.linalg.vector_norm(error, math.inf)))
    if math.isnan(squares):
        largest = math.nan
    return Errors(math.sqrt(squares / max(want.numel(), 1)), largest)


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
    theirs: Errors,
    size: Errors,
    precision: str,
) -> Comparison:
    mine = measure_errors(got, want)
    if not (math.isfinite(mine.rms) and math.isfinite(theirs.rms)):
        refused = _compare_special(name, got, own)
        if refused is not None:
            return refused
        mine, theirs = _finite_errors(got, want), _finite_errors(own, want)
        size = _finite_errors(torch.zeros((), dtype=got.dtype).expand(got.shape), want)
    if mine.largest == 0.0:
        return Comparison(True, "", 0.0, 0.0)
    rounding = 2 * BUDGETS.output_ulps * unit_roundoff(got.dtype, precision)
    rms_budget = BUDGETS.rms_ratio * theirs.rms + rounding * size.rms
    # The largest error may sit on any element, so its rounding is that of the largest output; the
    # RMS test, on the same scale, keeps that from hiding errors on many small ones.
    max_budget = BUDGETS.max_ratio * theirs.largest + rounding * size.largest
    used = max(_over(mine.rms, rms_budget), _over(mine.largest, max_budget))
    ratio = _over(mine.rms, theirs.rms)
    if used <= 1.0:
        return Comparison(True, "", used, ratio)
    reason = (
        f"{name} is off by {mine.largest:.3g} (RMS {mine.rms:.3g}), the reference itself by "
        f"{theirs.largest:.3g} (RMS {theirs.rms:.3g}): {used:.3g} times the budget"
    )
    return Comparison(False, reason, used, ratio)


def _within_condition(
    found: Comparison,
    got: torch.Tensor,
    want: torch.Tensor,
    scale: torch.Tensor,
    *,
    precision: str,
) -> Comparison:
    """The other way to be right: every error within k*u*S, and their RMS within a quarter of it."""
    u = unit_roundoff(got.dtype, precision)
    error = torch.sub(got.double(), want).abs_().nan_to_num_(0.0, 0.0, 0.0)
    bound = scale * (BUDGETS.condition_max * u) + want.abs().nan_to_num(0.0, 0.0, 0.0) * (2 * u)
    largest = float((error / bound.clamp_min(1e-300)).max())
    rms_bound = BUDGETS.condition_rms * u * _size(scale).rms + 2 * u * _size(want).rms
    rms = float(torch.linalg.vector_norm(error)) / math.sqrt(error.numel())
    used = max(largest, _over(rms, rms_bound))
    if used <= 1.0:
        return Comparison(True, "", used, found.error_over_reference)
    return found


def _compare_special(name: str, got: torch.Tensor, own: torch.Tensor) -> Comparison | None:
    """NaN and Inf must stand exactly where the reference has them."""
    same_nan = torch.isnan(got) == torch.isnan(own)
    infinite = torch.isinf(got) | torch.isinf(own)
    wrong = int((~(same_nan & (~infinite | (got == own)))).sum())
    if wrong == 0:
        return None
    reason = f"{name} has NaN or Inf at {wrong} places where the reference has none, or the reverse"
    return Comparison(False, reason, math.inf, math.inf)


def _compare_discrete(
    name: str, got: torch.Tensor, want: torch.Tensor, own: torch.Tensor
) -> Comparison:
    """Indices and flags: equal to the oracle's or to eager's answer, or wrong.

    Where those two agree the answer is stable. Where they differ, the compared values lie within
    rounding of each other and either is right. Exact ties are the same numbers in fp32 and in fp64,
    so there the two agree and the reference's tie rule is demanded.
    """
    right = (got == want) | (got == own)
    wrong = int((~right).sum())
    if wrong == 0:
        return Comparison(True, "", 0.0, 0.0)
    at = tuple(int(i) for i in (~right).nonzero()[0])
    reason = f"{name} differs at {wrong} of {got.numel()} places, first at {list(at)}: "
    reason += f"{got[at].item()} instead of {want[at].item()}"
    return Comparison(False, reason, math.inf, math.inf)


def _size(values: torch.Tensor) -> Errors:
    finite = values.abs().nan_to_num_(0.0, 0.0, 0.0)
    if finite.numel() == 0:
        return Errors(0.0, 0.0)
    rms = float(torch.linalg.vector_norm(finite)) / math.sqrt(finite.numel())
    return Errors(rms, float(finite.max()))


def _over(error: float, budget: float) -> float:
    if error == 0.0:
        return 0.0
    return error / budget if budget > 0.0 else math.inf
