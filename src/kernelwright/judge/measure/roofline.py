"""The time that a Task's bytes and flops need on this machine, at rates measured on it.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Bytes are those that must move: each
slot once, each output once. The arithmetic bound is advice only: algebra may beat it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.backends import PythonArtefact
from kernelwright.judge.measure.arm import Draw, Fault, describe
from kernelwright.judge.measure.bench import Bench
from kernelwright.sandbox import Failure, Limits, Nursery, usable_threads
from kernelwright.tasks.slots import OutputSlot, Signature

_STORE_BYTES_PER_S = 64 * 6.0e9
_DEVICE_COPY, _DEVICE_GEMM, _DEVICE_RUNS = 1 << 30, 8192, 7
_DEVICE_STORES = 100e12
"""Bytes per second that no device's multiprocessors can store, caches included."""


class RatesUnknown(Exception):
    """This machine's rates could not be measured; says why."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """The floor of one Task at one shape."""

    bytes_moved: int
    output_bytes: int
    flops: int
    bytes_per_s: float
    """Copy rate (bytes read plus written) at this footprint, so at the cache level it fits."""
    flops_per_s: float
    bytes_per_s_possible: float = 0.0
    """What no store rate of the device exceeds; 0: the host's cores are asked."""

    @property
    def floor_ns(self) -> float:
        """The larger of the memory time and the arithmetic time."""
        memory_s = self.bytes_moved / self.bytes_per_s
        compute_s = self.flops / self.flops_per_s
        return 1e9 * max(memory_s, compute_s)

    @property
    def impossible_ns(self) -> float:
        """Below this no kernel has written its outputs: one full vector store per cycle and core.

        A bound of the hardware, not a measurement: a rate measured on a busy machine came out three
        times too low and called an honest kernel a cheat.
        """
        possible = self.bytes_per_s_possible or _STORE_BYTES_PER_S * usable_threads()
        return 1e9 * self.output_bytes / possible


def measure_roofline(
    nursery: Nursery, limits: Limits, *, bytes_moved: int, output_bytes: int, flops: int
) -> Roofline:
    """Measures copy and GEMM rates where every arm runs: in a worker, with its threads pinned.

    Raises:
        RatesUnknown: the worker that measures them failed.
    """
    output = OutputSlot("rates", "output", "float64", (2,), (1,))
    bench = Bench(nursery, Signature((), (output,), random=False, notes=()), limits, seed=0)
    try:
        rates = _read_rates(bench, bytes_moved)
    finally:
        bench.close()
    return Roofline(bytes_moved, output_bytes, flops, *rates)


def _read_rates(bench: Bench, footprint: int) -> tuple[float, float]:
    config = {"footprint": footprint}
    rates = PythonArtefact("kernelwright.backends.arms:rates", config)
    arm = bench.spawn("rates", rates, config, trusted=True, jailed=None)
    if isinstance(arm, Failure):
        raise RatesUnknown(describe(arm))
    try:
        sample = bench.run(arm, Draw("none", [], 0), keep=True)
    finally:
        arm.close()
    if isinstance(sample, Fault):
        raise RatesUnknown(sample.reason)
    assert sample.outputs is not None
    copy, gemm = sample.outputs[0].tolist()
    return copy, gemm


def device_roofline(*, bytes_moved: int, output_bytes: int, flops: int) -> Roofline:
    """As `measure_roofline` on the first device, in the judge's own context, which is idle."""
    size = _DEVICE_COPY
    source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    a, b = torch.randn(2, _DEVICE_GEMM, _DEVICE_GEMM, device="cuda").unbind()
    copy_s = _device_seconds(lambda: target.copy_(source))
    gemm_s = _device_seconds(lambda: a @ b)
    rates = (2 * size / copy_s, 2 * _DEVICE_GEMM**3 / gemm_s)
    return Roofline(bytes_moved, output_bytes, flops, *rates, bytes_per_s_possible=_DEVICE_STORES)


def _device_seconds(action: Callable[[], Any]) -> float:
    """Of the fastest of a few runs, by the device's own events."""
    fastest = float("inf")
    for _ in range(_DEVICE_RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        action()
        end.record()
        end.synchronize()
        fastest = min(fastest, start.elapsed_time(end) / 1e3)
    return max(fastest, 1e-9)


def count_flops(call: Callable[[], Any]) -> int:
    """Flops of the matrix products and convolutions that `call` runs; others count as zero."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()
