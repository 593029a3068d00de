"""One Task at one shape: the inputs' arena, the arms that run on it, and one call of an arm.

The same path serves correctness and timing. Every arm allocates its outputs the way its user would
get them; the judge copies them out of the frozen process, outside the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernelwright.judge.defences import ALL_DEFENCES, Defences
from kernelwright.sandbox import Arena, Call, Failure, Limits, Nursery, TensorLayout, Watch, Worker
from kernelwright.sandbox.wire import storage_bytes
from kernelwright.tasks.slots import Signature

_HELD_BYTES = 128 << 20
_MAX_HELD = 6
_KEPT_BYTES, _MAX_KEPT = 32 << 20, 2
_MAX_WARM_CALLS = 24
_QUIET_FAULTS = 64
_SAMPLES_PER_OUTPUT = 16
_SAMPLE_BYTES = 64
_ALIGNMENT = 64
"""Of a native worker's outputs: a fenced one ends less than this before its fence."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The arm broke a rule of the call; the judge turns it into a Rejected."""

    stage: str
    reason: str


_NOT_MAPPED = Fault("verify", "an output does not lie in the worker's memory")


@dataclass(slots=True, eq=False)
class Draw:
    """One set of slot values, and what is known about them once it has been computed."""

    family: str
    values: list[Any]
    weights: int
    """Which redraw of parameters and statistics the values carry."""
    truth: list[Any] | None = None
    reference: list[Any] | None = None
    yardstick: Any = None
    """`verify.Yardstick` of truth and reference."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: its clocks and, where asked for, a copy of the outputs."""

    wall_ns: int
    cpu_ns: int
    late_cpu_ns: int
    freeze_ns: int
    outputs: list[Any] | None


@dataclass(slots=True)
class _Held:
    """Outputs the judge still 'uses': where they lie, and bytes of them at secret places."""

    seq: int
    ranges: list[tuple[int, int]]
    places: list[tuple[int, int]]
    data: bytes


class Arm:
    """One worker on a bench, and the outputs of it that are held."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        *,
        trusted: bool,
        charge_ns: int = 0,
        fenced: bool = False,
    ) -> None:
        self.name = name
        self.fenced = fenced
        """Its outputs end at a fence, with a canary where alignment leaves room before it."""
        self.charge_ns = charge_ns
        """Added to each of its times: what a call from Python costs that its runner is spared."""
        self.worker = worker
        self.trusted = trusted
        """A baseline may hand out a view of its input, as the user's own code would."""
        self.latest: Draw | None = None
        """What its last call was on."""
        self.held: list[_Held] = []
        self.kept: list[_Held] = []

    def close(self) -> int:
        """Ends the worker; returns how many processes it had started."""
        return self.worker.kill()


class Bench:
    """Owns the arena; at most one arm runs at a time."""

    def __init__(
        self,
        nursery: Nursery,
        signature: Signature,
        limits: Limits,
        *,
        seed: int,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        self._defences = defences
        self.nursery = nursery
        self.signature = signature
        self.limits = limits
        self.arena = Arena([_layout(slot) for slot in signature.slots])
        self.outputs = tuple(_layout(output) for output in signature.outputs)
        self._rng = np.random.Generator(np.random.Philox(key=seed))
        self._weights: int | None = None
        self._lies: Draw | None = None
        """What the arena holds."""
        self._spoilt = False
        self.prime: Draw | None = None
        """Inputs of the untimed call before each timed one; None where calls are long."""
        output_bytes = sum(output.nbytes for output in self.outputs)
        self.max_held = max(1, min(_MAX_HELD, _HELD_BYTES // max(output_bytes, 1)))
        self._max_kept = min(_MAX_KEPT, _KEPT_BYTES // max(output_bytes, 1))

    def load(self, draw: Draw) -> None:
        """Writes a draw into the arena; parameters only when they are another redraw."""
        for at, (slot, value) in enumerate(zip(self.signature.slots, draw.values, strict=True)):
            if slot.role == "input" or draw.weights != self._weights:
                self.arena.write(at, storage_of(value))
        self._weights, self._lies, self._spoilt = draw.weights, draw, False

    def run_primed(self, arm: Arm, draw: Draw, *, keep: bool) -> Sample | Fault:
        """A call right after another of the same arm, on older inputs, where calls are short.

        Between two calls of an arm the other arm runs and the judge compares: the arm's code has
        left the caches, and an empty call from Python costs 0.2 ms instead of 0.03. In its user's
        loop the code stays. To the worker both calls look alike.
        """
        if self.prime is not None:
            first = self.run(arm, self.prime, keep=False, poison=False)
            if isinstance(first, Fault):
                return first
        return self.run(arm, draw, keep=keep)

    def run(
        self,
        arm: Arm,
        draw: Draw,
        *,
        keep: bool,
        poison: bool = True,
        lies: bool = False,
        watch: Watch | None = None,
    ) -> Sample | Fault:
        """One timed call of `arm` on freshly written inputs.

        Args:
            arm: a frozen worker of this bench.
            draw: the inputs; written just before the clock starts, for every arm alike.
            keep: copy the outputs out of the frozen worker.
            poison: spoil the inputs afterwards; needless where others are written at once.
            lies: if the draw lies there from before it is not written again: never where the call
                is timed, since writing is what the caches of every arm begin with.
            watch: looks into the call, whose time then means nothing.
        """
        if lies and draw is self._lies:
            self._mend_inputs()
        else:
            self.load(draw)
        arm.latest = draw
        call = arm.worker.call(self._release(arm), watch=watch)
        if isinstance(call, Failure):
            return Fault("verify", describe(call))
        if not arm.trusted and arm.worker.children():
            # A process of its own does not stand still with it.
            return Fault("audit", "the candidate started a process that outlives its call")
        fault = self._check_layout(arm, call)
        if fault is not None:
            return fault
        outputs = self._copy_outputs(arm, call) if keep and arm.trusted else []
        if poison:
            self._poison_inputs()  # after every arm alike: it moves what the caches hold
        if keep and not arm.trusted:
            outputs = self._copy_outputs(arm, call)
        fault = _NOT_MAPPED if outputs is None else self._hold(arm, call)
        if fault is None and arm.fenced:
            fault = self._check_ends(arm, call)
        if fault is not None:
            return fault
        # The clock stops at the reply; what is computed until the standstill counts as well.
        wall_ns = call.wall_ns + call.late_cpu_ns + arm.charge_ns
        kept = outputs if keep else None
        return Sample(wall_ns, call.cpu_ns, call.late_cpu_ns, call.freeze_ns, kept)

    def warm(self, arm: Arm, one: Draw) -> int | Fault:
        """Calls that are timed by no one, until the arm's heap needs no fresh pages.

        glibc needs some ten calls before it recycles the blocks of a large aligned output, and
        held outputs need room of their own. How long it takes is read from outside. All these calls
        are on one draw, which no timed call uses again.

        Returns:
            How many calls it took.
        """
        calls, quiet = 0, 0
        while quiet < self.max_held + 1 and calls < _MAX_WARM_CALLS:
            before = arm.worker.minor_faults()
            sample = self.run(arm, one, keep=False, poison=False, lies=True)
            if isinstance(sample, Fault):
                return sample
            calls += 1
            quiet = quiet + 1 if arm.worker.minor_faults() - before < _QUIET_FAULTS else 0
        return calls

    def close(self) -> None:
        """Frees the arena; arms are closed by whoever spawned them."""
        self.arena.close()

    def _release(self, arm: Arm) -> tuple[int, ...]:
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

    def _check_layout(self, arm: Arm, call: Call) -> Fault | None:
        held = [r for earlier in arm.kept + arm.held for r in earlier.ranges]
        arena = (arm.worker.arena_address, arm.worker.arena_address + self.arena.nbytes)
        mine: list[tuple[int, int]] = []
        for at, (got, want) in enumerate(zip(call.reply.outputs, self.outputs, strict=True)):
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
            if arm.trusted or not self._defences.own_memory:
                continue
            if _overlaps(span, [arena]):
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
        if arm.worker.read_places(places) != expected:
            return Fault("audit", "an output still in use was overwritten or freed")
        return None

    def _check_ends(self, arm: Arm, call: Call) -> Fault | None:
        for at, (got, want) in enumerate(zip(call.reply.outputs, self.outputs, strict=True)):
            end = got.address + want.nbytes
            found = np.empty(-end % _ALIGNMENT, dtype=np.uint8)
            if not arm.worker.read_memory(end, found):
                return _NOT_MAPPED
            if found.tobytes() != _canary(end, found.size):
                return Fault("verify", f"something was written past the end of output {at}")
        return None

    def _hold(self, arm: Arm, call: Call) -> Fault | None:
        sizes = self.outputs if self._defences.exact_layout else call.reply.outputs
        spans = [
            (got.address, size.nbytes)
            for got, size in zip(call.reply.outputs, sizes, strict=True)
            if size.nbytes
        ]
        places = [place for span in spans for place in self._probe_places(*span)]
        data = arm.worker.read_places(places)
        if data is None:
            return _NOT_MAPPED
        ranges = [(address, address + nbytes) for address, nbytes in spans]
        arm.held.append(_Held(call.seq, ranges, places, data))
        return None

    def _probe_places(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        size = min(_SAMPLE_BYTES, nbytes)
        count = _SAMPLES_PER_OUTPUT if nbytes > 4096 else 1
        offsets = self._rng.integers(0, nbytes - size + 1, size=count)
        return [(address + int(offset), size) for offset in offsets]

    def _poison_inputs(self) -> None:
        self._spoilt = not self._spoilt
        for at, slot in enumerate(self.signature.slots):
            if slot.role == "input":
                self.arena.poison(at)

    def _mend_inputs(self) -> None:
        """Poisoning flips bits, so the same once more undoes it."""
        if self._spoilt:
            self._poison_inputs()

    def _copy_outputs(self, arm: Arm, call: Call) -> list[Any] | None:
        copies = []
        for got, want in zip(call.reply.outputs, self.outputs, strict=True):
            source = want if self._defences.exact_layout else got
            data = np.empty(source.nbytes, dtype=np.uint8)
            if source.nbytes and not arm.worker.read_memory(got.address, data):
                return None
            copies.append(_tensor(data, source))
        return copies if self._defences.exact_layout else _coerced(copies, self.outputs)


def storage_of(value: Any) -> np.ndarray:
    """The bytes a strided CPU tensor touches, first to last element, as uint8 without a copy."""
    dtype = str(value.dtype).removeprefix("torch.")
    nbytes = storage_bytes(dtype, tuple(value.shape), tuple(value.stride()))
    if nbytes == 0:
        return np.empty(0, dtype=np.uint8)
    flat = torch.as_strided(value.detach(), (nbytes // value.element_size(),), (1,))
    return flat.view(torch.uint8).numpy()


def describe(failure: Failure) -> str:
    """A worker's failure in one line for people."""
    text = {
        "crashed": "crashed",
        "hung": "did not end",
        "raised": "raised an error",
        "load_failed": "could not be loaded",
        "out_of_memory": "ran out of memory",
        "garbled": "sent a malformed reply",
    }[failure.kind]
    return f"{text}: {failure.detail}" if failure.detail else text


def _layout(slot: Any) -> TensorLayout:
    nbytes = storage_bytes(slot.dtype, slot.shape, slot.strides)
    return TensorLayout(0, nbytes, slot.dtype, slot.shape, slot.strides)


def _tensor(data: np.ndarray, layout: TensorLayout) -> Any:
    dtype = getattr(torch, layout.dtype)
    if layout.nbytes == 0:
        return torch.empty_strided(layout.shape, layout.strides, dtype=dtype)
    return torch.as_strided(torch.from_numpy(data).view(dtype), layout.shape, layout.strides)


def _coerced(values: list[Any], wanted: Sequence[TensorLayout]) -> list[Any]:
    """What a comparison with broadcasting and casts would take for the wanted outputs."""
    return [
        value.to(getattr(torch, want.dtype)).expand(want.shape).clone()
        for value, want in zip(values, wanted, strict=True)
    ]


def _steps(layout: TensorLayout) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element: the others mean nothing."""
    if 0 in layout.shape:
        return ()
    return tuple(
        stride for size, stride in zip(layout.shape, layout.strides, strict=True) if size > 1
    )


def _canary(start: int, count: int) -> bytes:
    """What fence.c leaves at these addresses."""
    return bytes((at * 0x9E3779B97F4A7C15 & 2**64 - 1) >> 56 for at in range(start, start + count))


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
