"""Could this Task's tolerance be fooled? Outputs that ignore the work must be rejected by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from kernelwright.judge.verify.compare import Yardstick, compare, measure_yardstick
from kernelwright.judge.verify.oracle import Oracle
from kernelwright.tasks.draw import Drawer
from kernelwright.tasks.slots import Signature

Values = list[torch.Tensor]
Eager = Callable[[Values], Values]
_TILE = 64
_NUMERIC_SUBSAMPLE = 10


class SanityReport(NamedTuple):
    """The mutants that this Task's tolerance lets through; none of them does the work."""

    survivors: tuple[str, ...]
    tried: tuple[str, ...]


def sanity_gate(
    drawer: Drawer, signature: Signature, oracle: Oracle, *, eager: Eager, precision: str
) -> SanityReport:
    """Compares outputs that did not do the work, under the very comparison Candidates face.

    Args:
        drawer: fresh inputs; the nominal family is used.
        signature: slots and outputs.
        oracle: the truth.
        eager: the reference's own outputs on given values, for the budget.
        precision: the Task's class.
    """
    values = drawer.draw("nominal", counter=0, weights=0)
    other = drawer.draw("nominal", counter=1, weights=0)
    truth, reference = oracle(values), eager(values)
    yardstick = measure_yardstick(truth, reference)
    scale = functools.cache(lambda: oracle.sensitivity(values, truth))
    survivors, tried = [], []
    for name, outputs in _mutants(signature, values, other, truth, oracle):
        tried.append(name)
        if _passes(
            outputs, truth, reference, precision=precision, scale=scale, yardstick=yardstick
        ):
            survivors.append(name)
    return SanityReport(tuple(survivors), tuple(tried))


def tells_work_from_none(truth: Values, reference: Values, *, precision: str) -> bool:
    """Whether outputs of no work (zeros, the best constant, a missing tail) fail on these inputs.

    A family whose inputs do not is no evidence for a Candidate that passes on them.
    """
    yardstick = measure_yardstick(truth, reference)
    return not any(
        _passes(
            outputs, truth, reference, precision=precision, scale=lambda: None, yardstick=yardstick
        )
        for _, outputs in _lazy_mutants(truth)
    )


def _passes(
    outputs: Values,
    truth: Values,
    reference: Values,
    *,
    precision: str,
    scale: Callable[[], Values | None],
    yardstick: Yardstick,
) -> bool:
    rounded = [o.to(r.dtype) for o, r in zip(outputs, reference, strict=True)]
    found = compare(
        rounded, truth, reference, precision=precision, sensitivity=scale, yardstick=yardstick
    )
    return found.ok


def _lazy_mutants(truth: Values) -> Iterator[tuple[str, Values]]:
    yield "zeros", [torch.zeros_like(t) for t in truth]
    yield "the best constant", [_constant(t) for t in truth]
    if any(t.numel() >= 2 * _TILE for t in truth):
        yield "the last tile left out", [_without_tail(t) for t in truth]


def _mutants(
    signature: Signature, values: Values, other: Values, truth: Values, oracle: Oracle
) -> Iterator[tuple[str, Values]]:
    yield from _lazy_mutants(truth)
    stale = oracle(other)
    if not all(torch.equal(a, b) for a, b in zip(stale, truth, strict=True)):
        yield "another input's output", stale
    sampled = oracle([_subsampled(v, s.role) for v, s in zip(values, signature.slots, strict=True)])
    if not all(torch.equal(a, b) for a, b in zip(sampled, truth, strict=True)):
        yield "a tenth of the input", sampled
    for at, slot in enumerate(signature.slots):
        if slot.role not in ("parameter", "statistic"):
            continue
        dropped = list(values)
        dropped[at] = _identity(slot.name, values[at])
        outputs = oracle(dropped)
        if any(not torch.equal(a, b) for a, b in zip(outputs, truth, strict=True)):
            yield f"{slot.name} ignored", outputs


def _constant(truth: torch.Tensor) -> torch.Tensor:
    if truth.is_floating_point():
        return torch.full_like(truth, float(truth.mean()) if truth.numel() else 0.0)
    return torch.full_like(truth, truth.flatten().mode().values.item() if truth.numel() else 0)


def _without_tail(truth: torch.Tensor) -> torch.Tensor:
    result = truth.clone()
    flat = result.view(-1) if result.is_contiguous() else result.reshape(-1)
    flat[-_TILE:] = 0
    return flat.view(truth.shape)


def _subsampled(value: torch.Tensor, role: str) -> torch.Tensor:
    """Nine tenths of an input replaced by copies of the last tenth, along its last dimension."""
    size = value.shape[-1] if value.dim() else 0
    if role != "input" or size < _NUMERIC_SUBSAMPLE or not value.is_floating_point():
        return value
    kept = size // _NUMERIC_SUBSAMPLE
    index = torch.arange(size) % kept + (size - kept)
    return value.index_select(-1, index)


def _identity(name: str, value: torch.Tensor) -> torch.Tensor:
    """What code that skips the parameter behaves like: scale one for a vector weight, else zero."""
    is_scale = name.endswith(("weight", "running_var")) and value.dim() == 1
    return torch.ones_like(value) if is_scale else torch.zeros_like(value)
