"""One Task at one shape: the inputs' arena, the arms that run on it, and one call of an arm.

The same path serves correctness and timing. Every arm allocates its outputs the way its user would
get them; the judge copies them out of the frozen process, outside the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernelwright.backends import Artefact, NativeArtefact
from kernelwright.judge.defences import ALL_DEFENCES, Defences
from kernelwright.judge.measure.arm import (
    Arm,
    Draw,
    Fault,
    Sample,
    describe,
    layout_of,
    sample_of,
    storage_of,
    tensor_of,
)
from kernelwright.judge.measure.custody import NOT_MAPPED, Custody
from kernelwright.sandbox import Arena, Call, Failure, Limits, Nursery, TensorLayout, Watch
from kernelwright.tasks.slots import Signature

_MAX_WARM_CALLS = 24
_QUIET_FAULTS = 64
_ALIGNMENT = 64
"""Of a native worker's outputs: a fenced one ends less than this before its fence."""


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
        self.arena = Arena([layout_of(slot) for slot in signature.slots])
        self.outputs = tuple(layout_of(output) for output in signature.outputs)
        self._rng = np.random.Generator(np.random.Philox(key=seed))
        self._weights: int | None = None
        self._lies: Draw | None = None
        """What the arena holds."""
        self._spoilt = False
        self.prime: Draw | None = None
        """Inputs of the untimed call before each timed one; None where calls are long."""
        self._custody = Custody(self.outputs, self._rng, defences)

    def spawn(
        self,
        name: str,
        artefact: Artefact,
        config: dict[str, Any],
        *,
        trusted: bool,
        jailed: Sequence[Path] | None,
        fenced: bool = False,
        charge_ns: int = 0,
    ) -> Arm | Failure:
        """Starts a worker on this bench's inputs.

        Args:
            name: of the arm.
            artefact: what it serves.
            config: of a Python arm.
            trusted: a baseline, that may return views.
            jailed: what a Python arm may read; None: a plain process.
            fenced: a native one's buffers end at a fence.
            charge_ns: added to the times of a native one.
        """
        common = {"arena": self.arena, "outputs": self.outputs, "limits": self.limits}
        native = isinstance(artefact, NativeArtefact)
        if isinstance(artefact, NativeArtefact):
            worker = self.nursery.spawn_native(
                artefact.library, artefact.symbol, fenced=fenced, **common
            )
        else:
            worker = self.nursery.spawn_python(artefact.arm, config, jailed=jailed, **common)
        if isinstance(worker, Failure):
            return worker
        at = worker.arena_address
        return Arm(
            name,
            worker,
            trusted=trusted,
            inputs=(at, at + self.arena.nbytes),
            charge_ns=charge_ns if native else 0,
            fenced=native and fenced,
        )

    @property
    def slots(self) -> tuple[TensorLayout, ...]:
        """What the arena holds."""
        return self.arena.slots

    def can_prime(self) -> bool:
        """Inputs in host memory are written in no time."""
        return True

    def load(self, draw: Draw) -> None:
        """Writes a draw into the arena; parameters only when they are another redraw."""
        for at, (slot, value) in enumerate(zip(self.signature.slots, draw.values, strict=True)):
            if slot.role == "input" or draw.weights != self._weights:
                self.arena.write(at, storage_of(value).numpy())
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
        call = arm.worker.call(self._custody.release(arm), watch=watch)
        if isinstance(call, Failure):
            return Fault("verify", describe(call))
        if not arm.trusted and arm.worker.children():
            # A process of its own does not stand still with it.
            return Fault("audit", "the candidate started a process that outlives its call")
        fault = self._custody.check(arm, call)
        if fault is not None:
            return fault
        outputs = self._copy_outputs(arm, call) if keep and arm.trusted else []
        if poison:
            self._poison_inputs()  # after every arm alike: it moves what the caches hold
        if keep and not arm.trusted:
            outputs = self._copy_outputs(arm, call)
        fault = NOT_MAPPED if outputs is None else self._custody.hold(arm, call)
        if fault is None and arm.fenced:
            fault = self._check_ends(arm, call)
        if fault is not None:
            return fault
        return sample_of(call, arm, outputs if keep else None)

    def warm(self, arm: Arm, one: Draw) -> int | Fault:
        """Calls that are timed by no one, until the arm's heap needs no fresh pages.

        glibc needs some ten calls before it recycles the blocks of a large aligned output, and
        held outputs need room of their own. How long it takes is read from outside. All these calls
        are on one draw, which no timed call uses again.

        Returns:
            How many calls it took.
        """
        calls, quiet = 0, 0
        while quiet < self._custody.max_held + 1 and calls < _MAX_WARM_CALLS:
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

    def _check_ends(self, arm: Arm, call: Call) -> Fault | None:
        for at, (got, want) in enumerate(zip(call.reply.outputs, self.outputs, strict=True)):
            end = got.address + want.nbytes
            found = np.empty(-end % _ALIGNMENT, dtype=np.uint8)
            if not arm.worker.read_memory(end, found):
                return NOT_MAPPED
            if found.tobytes() != _canary(end, found.size):
                return Fault("verify", f"something was written past the end of output {at}")
        return None

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
            copies.append(tensor_of(torch.from_numpy(data), source))
        return copies if self._defences.exact_layout else _coerced(copies, self.outputs)


def _coerced(values: list[Any], wanted: Sequence[TensorLayout]) -> list[Any]:
    """What a comparison with broadcasting and casts would take for the wanted outputs."""
    return [
        value.to(getattr(torch, want.dtype)).expand(want.shape).clone()
        for value, want in zip(values, wanted, strict=True)
    ]


def _canary(start: int, count: int) -> bytes:
    """What fence.c leaves at these addresses."""
    return bytes((at * 0x9E3779B97F4A7C15 & 2**64 - 1) >> 56 for at in range(start, start + count))
