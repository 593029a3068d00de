"""One Task at one shape on a CUDA device: as `Bench`, with every worker's memory its own.

Stopping a process does not stop what it has put on the device. But contexts share a device by time
slices of about two milliseconds, so whatever a stopped process has there, running or waiting for
anything, shows in the wall time of a short kernel of ours: it waits for its slice. A kernel of 0.3
ms then takes 1.6 ms and more (`benchmarks/gpu_probe.py`). After every timed call this probe runs:
what it takes beyond its usual time was work of the call, and is added to it.

The first kernel after another context used the device costs 0.15 ms more. A short call is therefore
timed right after an untimed one of the same worker, and the inputs in between come from the host by
a copy engine, which leaves the device's compute side where it was.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
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
from kernelwright.sandbox import (
    Call,
    DeviceArena,
    DeviceMemory,
    Failure,
    Limits,
    Nursery,
    Watch,
)
from kernelwright.tasks.slots import Signature

_HELD_BYTES = 2 << 30
_LEAST_POOL = 256 << 20
_WARM_CALLS = 4
_PROBE_CYCLES = 500_000
_SLICE_NS = 1_300_000
_PROBES = 3
_SPOT_CHECKS = 0.2
_PRIMED_BYTES = 512 << 20


class DeviceBench:
    """Runs arms on the first device; at most one at a time."""

    def __init__(
        self,
        nursery: Nursery,
        signature: Signature,
        limits: Limits,
        *,
        seed: int,
        working_bytes: int,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        """`working_bytes`: what one call of the reference allocates at most."""
        self.nursery = nursery
        self.signature = signature
        self.limits = limits
        self.slots = tuple(layout_of(slot) for slot in signature.slots)
        self.outputs = tuple(layout_of(output) for output in signature.outputs)
        self._rng = np.random.Generator(np.random.Philox(key=seed))
        self._custody = Custody(self.outputs, self._rng, defences, held_bytes=_HELD_BYTES)
        held = (self._custody.max_held + 2) * sum(output.nbytes for output in self.outputs)
        self._pool_bytes = _LEAST_POOL + 2 * working_bytes + held
        self._decoy: Draw | None = None
        self.prime: Draw | None = None
        """Inputs of the untimed call before each timed one; None where calls are long."""
        self._usual: deque[int] = deque(maxlen=64)
        """What the probe took after calls of trusted arms, ns."""

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
        """See `Bench.spawn`; a native artefact is for the host alone."""
        if isinstance(artefact, NativeArtefact):
            return Failure("load_failed", "a shared object of the host does not run on a device")
        arena, pool = DeviceArena(self.slots), DeviceMemory(self._pool_bytes)
        if self._decoy is not None:
            _write(arena, self._decoy.values)
            torch.cuda.synchronize()
        worker = self.nursery.spawn_python(
            artefact.arm,
            config,
            arena=arena,
            outputs=self.outputs,
            limits=self.limits,
            jailed=jailed,
            pool=pool,
        )
        if isinstance(worker, Failure):
            arena.close()
            pool.close()
            return worker
        return DeviceArm(name, worker, trusted=trusted, arena=arena, pool=pool)

    def load(self, draw: Draw) -> None:
        """What every worker finds in its arena when it starts."""
        self._decoy = draw

    def run_primed(self, arm: Arm, draw: Draw, *, keep: bool) -> Sample | Fault:
        """A call right after another of the same arm, on older inputs, where calls are short.

        In between the device is left to the worker; now and then, secretly, it is probed there
        instead: an arm that leaves work behind for the time of its inputs' arrival is found.
        """
        if self.prime is None:
            return self.run(arm, draw, keep=keep)
        assert isinstance(arm, DeviceArm)
        for _ in range(_PROBES):
            _write(arm.arena, self.prime.values)
            first = self._call(arm)
            if isinstance(first, Fault):
                return first
            self._custody.hold_unread(arm, first)
            if self._rng.random() >= _SPOT_CHECKS:
                break
            if self._settle() is None:
                return self._pending(arm)
        return self._finish(arm, draw, self._call(arm, _staged(draw)), keep=keep)

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
        """See `Bench.run`. Outputs can be no views here: they lie in other memory than inputs."""
        assert isinstance(arm, DeviceArm)
        if self._settle() is None:
            return self._pending(arm)
        _write(arm.arena, draw.values)
        return self._finish(arm, draw, self._call(arm, watch=watch), keep=keep)

    def warm(self, arm: Arm, one: Draw) -> int | Fault:
        """Calls that no one times, until torch's allocator in the worker has what it needs."""
        calls = self._custody.max_held + _WARM_CALLS
        for _ in range(calls):
            sample = self.run(arm, one, keep=False)
            if isinstance(sample, Fault):
                return sample
        return calls

    def can_prime(self) -> bool:
        """Whether inputs are small enough to come from the host before each call."""
        return sum(slot.nbytes for slot in self.slots) <= _PRIMED_BYTES

    def close(self) -> None:
        """Nothing is shared between arms."""

    def _call(
        self, arm: DeviceArm, staged: list[Any] | None = None, *, watch: Watch | None = None
    ) -> Call | Fault:
        if staged is not None:
            _write(arm.arena, staged)
        torch.cuda.synchronize()
        call = arm.worker.call(self._custody.release(arm), watch=watch)
        if isinstance(call, Failure):
            return Fault("verify", describe(call))
        if not arm.trusted and arm.worker.children():
            return Fault("audit", "the candidate started a process that outlives its call")
        return call

    def _finish(
        self, arm: DeviceArm, draw: Draw, call: Call | Fault, *, keep: bool
    ) -> Sample | Fault:
        """Everything after the reply of a timed call."""
        if isinstance(call, Fault):
            return call
        arm.latest = draw
        late_ns = self._late_ns(arm)
        if late_ns is None:
            return self._pending(arm)
        fault = self._custody.check(arm, call)
        outputs = None if fault is not None or not keep else self._copy_outputs(arm, call)
        fault = fault or self._custody.hold(arm, call)
        if fault is None and keep and outputs is None:
            fault = NOT_MAPPED
        if fault is None and keep and not arm.trusted:
            fault = self._check_inputs(arm, draw)
        if fault is not None:
            return fault
        sample = sample_of(call, arm, outputs)
        return replace(sample, wall_ns=sample.wall_ns + late_ns)

    def _late_ns(self, arm: Arm) -> int | None:
        """How much longer than usual the probe took: work that the reply did not wait for."""
        took = self._settle()
        if took is None:
            return None
        if arm.trusted:
            self._usual.append(took)
        ordered = sorted(self._usual)
        usual = ordered[int(0.9 * (len(ordered) - 1))] if ordered else took
        return max(0, took - usual)

    def _settle(self) -> int | None:
        """Time of the probe, ns; None where another context keeps the device."""
        took = []
        for _ in range(_PROBES):
            torch.cuda.synchronize()
            began = time.perf_counter_ns()
            torch.cuda._sleep(_PROBE_CYCLES)
            torch.cuda.synchronize()
            took.append(time.perf_counter_ns() - began)
            if took[-1] < _SLICE_NS:
                return took[0] if len(took) == 1 else int(statistics.median(took))
        return None

    def _pending(self, arm: Arm) -> Fault:
        if arm.trusted:
            return Fault("baseline", "the device is busy with other work")
        return Fault("audit", "work on the device outlives the call that began it")

    def _check_inputs(self, arm: DeviceArm, draw: Draw) -> Fault | None:
        for at, (slot, value) in enumerate(zip(self.signature.slots, draw.values, strict=True)):
            if not torch.equal(arm.arena.slot(at), storage_of(value)):
                return Fault("verify", f"it writes to {slot.name}, which is an input")
        return None

    def _copy_outputs(self, arm: DeviceArm, call: Call) -> list[Any] | None:
        copies = []
        for got, want in zip(call.reply.outputs, self.outputs, strict=True):
            data = arm.bytes_at(got.address, want.nbytes)
            if data is None:
                return None
            copies.append(tensor_of(data.clone(), want))
        return copies


class DeviceArm(Arm):
    """An arm with an arena and a pool of its own."""

    def __init__(
        self, name: str, worker: Any, *, trusted: bool, arena: DeviceArena, pool: DeviceMemory
    ) -> None:
        base = worker.arena_address
        home = (base, base + pool.nbytes)
        super().__init__(name, worker, trusted=trusted, inputs=(0, 0), home=home, memory=self)
        self.arena, self._pool, self._base = arena, pool, base

    def bytes_at(self, address: int, nbytes: int) -> torch.Tensor | None:
        """The judge's view of a part of the pool; None where the address lies outside it."""
        at = address - self._base
        if at < 0 or at + nbytes > self._pool.nbytes:
            return None
        return self._pool.bytes[at : at + nbytes]

    def read_memory(self, address: int, into: Any) -> bool:
        """See `Reader`."""
        found = self.bytes_at(address, into.nbytes)
        if found is not None:
            torch.from_numpy(into).copy_(found)
        return found is not None

    def read_places(self, places: Sequence[tuple[int, int]]) -> bytes | None:
        """See `Reader`."""
        parts = [self.bytes_at(*place) for place in places]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return torch.cat(found).cpu().numpy().tobytes() if found else b""

    def close(self) -> int:
        """See `Arm`."""
        started = super().close()
        self.arena.close()
        self._pool.close()
        return started


def _write(arena: DeviceArena, values: Sequence[Any]) -> None:
    for at, value in enumerate(values):
        arena.write(at, storage_of(value))


def _staged(draw: Draw) -> list[Any]:
    """The draw in page-locked host memory, from where a copy engine takes it."""
    if draw.staged is None:
        draw.staged = [_pinned(value) for value in draw.values]
    return draw.staged


def _pinned(value: torch.Tensor) -> torch.Tensor:
    shape, strides = tuple(value.shape), tuple(value.stride())
    host = torch.empty_strided(shape, strides, dtype=value.dtype, pin_memory=True)
    return host.copy_(value)
