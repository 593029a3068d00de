"""Could this Task's tolerance be fooled? Outputs that ignore the work must be rejected by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from kernelwright.judge.verify.compare import Yardstick, compare, measure_yardstick
from kernelwright.judge.verify.discrete import Scale
from kernelwright.judge.verify.oracle import Oracle
from kernelwright.tasks.draw import Drawer
from kernelwright.tasks.slots import Signature

Values = list[torch.Tensor]
Eager = Callable[[Values], Values]
Scales = Callable[[], list[Scale] | None]
_TILE = 64
_SUBSAMPLE = 10
_DROPPED_AT_MOST = 32
_NOISE = 2.0**-40
"""Share of the largest output below which float64 itself may have moved it: dead by algebra."""


class SanityReport(NamedTuple):
    """The mutants that this Task's tolerance lets through; none of them does the work."""

    survivors: tuple[str, ...]
    tried: tuple[str, ...]
    left_out: int = 0
    """Parameters not dropped because there are very many."""
    fixed: tuple[str, ...] = ()
    """Integer inputs that are the same in every draw: a kernel need not read them."""


class _Bar(NamedTuple):
    """What outputs must clear: the very comparison that Candidates face."""

    truth: Values
    reference: Values
    yardstick: Yardstick
    precision: str
    scales: Scales
    places: tuple[int, ...]
    """The outputs that must clear it."""

    def lets_through(self, outputs: Values) -> bool:
        """Whether any one output would pass: a Candidate may do the work for all the others."""
        return any(self._passes(outputs[at], at) for at in self.places)

    def _passes(self, output: torch.Tensor, at: int) -> bool:
        truth, reference = self.truth[at], self.reference[at]
        if output is truth:
            return False  # this mutant leaves the output alone

        def scale() -> list[Scale] | None:
            found = self.scales()
            return None if found is None else [found[at]]

        own, size = self.yardstick
        return compare(
            [output.to(reference.dtype)],
            [truth],
            [reference],
            precision=self.precision,
            sensitivity=scale,
            yardstick=Yardstick((own[at],), (size[at],)),
        ).ok


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
    scales = functools.cache(lambda: oracle.sensitivity(values, truth))
    # A counter of calls is the same number whatever the inputs: no output to judge work by.
    places = tuple(
        at
        for at, (slot, own) in enumerate(zip(signature.outputs, reference, strict=True))
        if slot.role == "output" or own.is_floating_point()
    )
    bar = _Bar(truth, reference, yardstick, precision, scales, places)
    dropped = _droppable(signature)
    survivors, tried = [], []
    mutants = _Mutants(signature, values, truth, oracle)
    for name, outputs in mutants.all(oracle(other), dropped):
        tried.append(name)
        if bar.lets_through(outputs):
            survivors.append(name)
    redrawn = sum(slot.role in ("parameter", "statistic") for slot in signature.slots)
    fixed = tuple(
        slot.name
        for slot, one, two in zip(signature.slots, values, other, strict=True)
        if slot.role == "input" and not _redrawable(one) and torch.equal(one, two)
    )
    return SanityReport(tuple(survivors), tuple(tried), redrawn - len(dropped), fixed)


def tells_work_from_none(
    truth: Values, reference: Values, *, precision: str, yardstick: Yardstick | None = None
) -> bool:
    """Whether outputs of no work (zeros, the best constant, a missing tail) fail on these inputs.

    A family whose inputs do not is no evidence for a Candidate that passes on them.
    """
    yardstick = yardstick or measure_yardstick(truth, reference)
    places = tuple(range(len(truth)))
    bar = _Bar(truth, reference, yardstick, precision, lambda: None, places)
    return not any(bar.lets_through(outputs) for _, outputs in _lazy(truth, truth))


class _Mutants:
    """Outputs of a call that did not do all of its work."""

    def __init__(self, signature: Signature, values: Values, truth: Values, oracle: Oracle) -> None:
        self._signature, self._values = signature, values
        self._truth, self._oracle = truth, oracle

    def all(self, stale: Values, dropped: list[int]) -> Iterator[tuple[str, Values]]:
        """Name and outputs of each mutant that moves an output at all."""
        yield from _lazy(self._truth, stale)
        yield from self._moving("another input's output", stale)
        yield from self._moving("a tenth of the input", self._oracle(self._subsampled()))
        yield from self._moving("state left as it was", self._idle_state())
        for at in dropped:
            slot = self._signature.slots[at]
            values = list(self._values)
            values[at] = _identity(slot.name, values[at])
            yield from self._moving(f"{slot.name} ignored", self._oracle(values))

    def _moving(self, name: str, outputs: Values) -> Iterator[tuple[str, Values]]:
        pairs = zip(outputs, self._truth, strict=True)
        moved = [output if _differs(output, truth) else truth for output, truth in pairs]
        if any(m is not t for m, t in zip(moved, self._truth, strict=True)):
            yield name, moved

    def _subsampled(self) -> Values:
        pairs = zip(self._values, self._signature.slots, strict=True)
        return [_subsampled(value) if slot.role == "input" else value for value, slot in pairs]

    def _idle_state(self) -> Values:
        given = [
            value.double() if value.is_floating_point() else value
            for value, slot in zip(self._values, self._signature.slots, strict=True)
            if slot.role == "state"
        ]
        return [*self._truth[: len(self._truth) - len(given)], *given]


def _redrawable(value: torch.Tensor) -> bool:
    """Whether other families draw it anew; integers come from the Task's own generator alone."""
    return value.is_floating_point() or value.dtype is torch.bool


def _lazy(truth: Values, stale: Values) -> Iterator[tuple[str, Values]]:
    """No work at all; `stale` are outputs of other inputs, which the constant comes from."""
    yield "zeros", [torch.zeros_like(t) for t in truth]
    constants = [_constant(t) for t in stale]
    if any(t.numel() > 1 for t in truth) or stale is not truth:
        yield (
            "the best constant",
            [
                c if t.numel() > 1 or stale is not truth else t
                for c, t in zip(constants, truth, strict=True)
            ],
        )
    if any(t.numel() >= 2 * _TILE for t in truth):
        yield (
            "the last tile left out",
            [_without_tail(t) if t.numel() >= 2 * _TILE else t for t in truth],
        )


def _droppable(signature: Signature) -> list[int]:
    """Places of the parameters and statistics to drop, evenly picked where there are many."""
    places = [
        at for at, slot in enumerate(signature.slots) if slot.role in ("parameter", "statistic")
    ]
    step = max(1, -(-len(places) // _DROPPED_AT_MOST))
    return places[::step]


def _differs(output: torch.Tensor, truth: torch.Tensor) -> bool:
    if not truth.is_floating_point():
        return not torch.equal(output, truth)
    if truth.numel() == 0:
        return False
    moved = torch.sub(output, truth).abs_().max()
    return not bool(moved <= _NOISE * truth.abs().max())  # NaN counts as moved


def _constant(output: torch.Tensor) -> torch.Tensor:
    if output.is_floating_point():
        return torch.full_like(output, float(output.mean()) if output.numel() else 0.0)
    return torch.full_like(output, output.flatten().mode().values.item() if output.numel() else 0)


def _without_tail(truth: torch.Tensor) -> torch.Tensor:
    """Zeros in the last sixty-fourth: of fewer elements all may rightly be tiny."""
    flat = truth.flatten().clone()
    flat[-max(_TILE, truth.numel() // _TILE) :] = 0
    return flat.view(truth.shape)


def _subsampled(value: torch.Tensor) -> torch.Tensor:
    """Nine tenths of an input replaced by copies of the last tenth, along its last dimension."""
    size = value.shape[-1] if value.dim() else 0
    if size < _SUBSAMPLE or not value.is_floating_point():
        return value
    kept = size // _SUBSAMPLE
    index = torch.arange(size, device=value.device) % kept + (size - kept)
    return value.index_select(-1, index)


def _identity(name: str, value: torch.Tensor) -> torch.Tensor:
    """What code that skips the parameter behaves like: scale one for a vector weight, else zero."""
    is_scale = name.endswith(("weight", "running_var")) and value.dim() == 1
    return torch.ones_like(value) if is_scale else torch.zeros_like(value)
