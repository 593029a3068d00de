"""The time that a Task's bytes and flops need on this machine, at rates measured on it.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Bytes are those that must move: each
slot once, each output once. The arithmetic bound is advice only: algebra may beat it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.judge.measure.bench import Arm, Bench, Draw, Fault, describe
from kernelwright.sandbox import Failure, Limits, Nursery, usable_threads
from kernelwright.tasks.slots import OutputSlot, Signature

_STORE_BYTES_PER_S = 64 * 6.0e9


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
        return 1e9 * self.output_bytes / (_STORE_BYTES_PER_S * usable_threads())


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
    worker = bench.nursery.spawn_python(
        "kernelwright.backends.arms:rates",
        {"footprint": footprint},
        arena=bench.arena,
        outputs=bench.outputs,
        limits=bench.limits,
    )
    if isinstance(worker, Failure):
        raise RatesUnknown(describe(worker))
    arm = Arm("rates", worker, trusted=True)
    try:
        sample = bench.run(arm, Draw("none", [], 0), keep=True)
    finally:
        arm.close()
    if isinstance(sample, Fault):
        raise RatesUnknown(sample.reason)
    assert sample.outputs is not None
    copy, gemm = sample.outputs[0].tolist()
    return copy, gemm


def count_flops(call: Callable[[], Any]) -> int:
    """Flops of the matrix products and convolutions that `call` runs; others count as zero."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()
