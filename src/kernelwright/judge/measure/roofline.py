"""The time that a Task's bytes and flops need on this machine, at rates measured on it.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. Bytes are those that must move: each
slot once, each output once. The arithmetic bound is advice only: algebra may beat it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.sandbox import usable_threads

_REPEATS = 7
_GEMM_SIZE = 768
_STORE_BYTES_PER_S = 64 * 6.0e9
_CACHED_RATES: dict[int, float] = {}


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


def measure_roofline(bytes_moved: int, output_bytes: int, flops: int) -> Roofline:
    """Measures copy and GEMM rates with all threads; a few tens of milliseconds."""
    return Roofline(bytes_moved, output_bytes, flops, _copy_rate(bytes_moved), _gemm_rate())


def count_flops(call: Callable[[], Any]) -> int:
    """Flops of the matrix products and convolutions that `call` runs; others count as zero."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def _copy_rate(footprint: int) -> float:
    size = min(max(footprint // 2, 1 << 12), 64 << 20)
    if size not in _CACHED_RATES:
        source = torch.ones(size // 4)
        target = torch.empty_like(source)
        seconds = _best(lambda: target.copy_(source))
        _CACHED_RATES[size] = 2 * size / seconds
    return _CACHED_RATES[size]


def _gemm_rate() -> float:
    if 0 not in _CACHED_RATES:
        a, b = torch.randn(2, _GEMM_SIZE, _GEMM_SIZE).unbind()
        seconds = _best(lambda: a @ b)
        _CACHED_RATES[0] = 2 * _GEMM_SIZE**3 / seconds
    return _CACHED_RATES[0]


def _best(action: Callable[[], Any]) -> float:
    """Fastest of a few runs: a rate is a bound, so the best is the honest figure here."""
    fastest = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        action()
        fastest = min(fastest, time.perf_counter() - started)
    return max(fastest, 1e-9)
