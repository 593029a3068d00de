"""What the judge knows of outputs still in use: they may neither move nor change nor be shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelwright.judge.defences import Defences
from kernelwright.judge.measure.arm import Arm, Fault, Held, Span
from kernelwright.sandbox import Call, TensorLayout

_HELD_BYTES = 128 << 20
_MAX_HELD = 6
_KEPT_BYTES, _MAX_KEPT = 32 << 20, 2
_SAMPLES_PER_OUTPUT = 16
_SAMPLE_BYTES = 64
NOT_MAPPED = Fault("verify", "an output does not lie in the worker's memory")


class Custody:
    """The outputs of a bench's arms, from the reply on."""

    def __init__(
        self,
        outputs: tuple[TensorLayout, ...],
        rng: np.random.Generator,
        defences: Defences,
        *,
        held_bytes: int = _HELD_BYTES,
    ) -> None:
        """`held_bytes`: how much of an arm's memory may be in use at once."""
        self._outputs, self._rng, self._defences = outputs, rng, defences
        nbytes = sum(output.nbytes for output in outputs)
        self.max_held = max(1, min(_MAX_HELD, held_bytes // max(nbytes, 1)))
        self._max_kept = min(_MAX_KEPT, _KEPT_BYTES // max(nbytes, 1))

    def release(self, arm: Arm) -> tuple[int, ...]:
        """A secret number of earlier outputs stays in use, so a ring of buffers is caught.

        One or two small ones of the first calls stay to the end, against a ring of very many.
        """
        target = int(self._rng.integers(1, self.max_held + 1))
        release = []
        while len(arm.held) > target and len(release) < 8:
            oldest = arm.held.pop(0)
            if not arm.trusted and len(arm.kept) < self._max_kept and self._rng.random() < 0.5:
                arm.kept.append(oldest)
            else:
                release.append(oldest.seq)
        return tuple(release)

    def check(self, arm: Arm, call: Call) -> Fault | None:
        """Checks that come before comparison: layout, and memory that is the output's alone."""
        held = [r for earlier in arm.kept + arm.held for r in earlier.ranges]
        mine: list[Span] = []
        for at, (got, want) in enumerate(zip(call.reply.outputs, self._outputs, strict=True)):
            exact = self._defences.exact_layout
            if exact and (got.dtype, got.shape) != (want.dtype, want.shape):
                return Fault(
                    "verify",
                    f"output {at} is {got.dtype}{list(got.shape)}, "
                    f"expected {want.dtype}{list(want.shape)}",
                )
            if exact and _steps(got) != _steps(want):
                return Fault(
                    "verify",
                    f"output {at} has strides {list(got.strides)}, expected {list(want.strides)}",
                )
            if want.nbytes == 0:
                continue
            span = (got.address, got.address + (want.nbytes if exact else got.nbytes))
            if arm.home is not None and not arm.home[0] <= span[0] <= span[1] <= arm.home[1]:
                return Fault("verify", f"output {at} lies outside the worker's own memory")
            if arm.trusted or not self._defences.own_memory:
                continue
            if _overlaps(span, [arm.inputs]):
                return Fault("audit", f"output {at} is a view of an input")
            if _overlaps(span, mine):
                return Fault("audit", f"output {at} shares memory with another output")
            if _overlaps(span, held):
                return Fault("audit", f"output {at} reuses memory of an output still in use")
            mine.append(span)
        return None if arm.trusted or not self._defences.own_memory else self._check_held(arm)

    def _check_held(self, arm: Arm) -> Fault | None:
        in_use = arm.kept + arm.held
        places = [place for earlier in in_use for place in earlier.places]
        expected = b"".join(earlier.data for earlier in in_use)
        if arm.memory.read_places(places) != expected:
            return Fault("audit", "an output still in use was overwritten or freed")
        return None

    def hold_unread(self, arm: Arm, call: Call) -> None:
        """As `hold`, without reading: on a device that would take it from the worker."""
        pairs = zip(call.reply.outputs, self._outputs, strict=True)
        ranges = [(got.address, got.address + want.nbytes) for got, want in pairs if want.nbytes]
        arm.held.append(Held(call.seq, ranges, [], b""))

    def hold(self, arm: Arm, call: Call) -> Fault | None:
        """Notes where the outputs of a call lie, and bytes of them at secret places."""
        sizes = self._outputs if self._defences.exact_layout else call.reply.outputs
        spans = [
            (got.address, size.nbytes)
            for got, size in zip(call.reply.outputs, sizes, strict=True)
            if size.nbytes
        ]
        places = [place for span in spans for place in self._probe_places(*span)]
        data = arm.memory.read_places(places)
        if data is None:
            return NOT_MAPPED
        ranges = [(address, address + nbytes) for address, nbytes in spans]
        arm.held.append(Held(call.seq, ranges, places, data))
        return None

    def _probe_places(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        size = min(_SAMPLE_BYTES, nbytes)
        count = _SAMPLES_PER_OUTPUT if nbytes > 4096 else 1
        offsets = self._rng.integers(0, nbytes - size + 1, size=count)
        return [(address + int(offset), size) for offset in offsets]


def _steps(layout: TensorLayout) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others mean nothing."""
    if 0 in layout.shape:
        return ()
    return tuple(
        stride for size, stride in zip(layout.shape, layout.strides, strict=True) if size > 1
    )


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
