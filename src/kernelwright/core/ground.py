"""Ground: what the Candidates of one session are measured against."""

from __future__ import annotations

from kernelwright.core.record import Record
from kernelwright.core.verdict import ArmTime


class Ground(Record):
    """Baselines, the machine's resolution, and the roofline, once they are measured."""

    task: str
    shape: str
    """Sizes at which everything here was timed."""
    baselines: tuple[ArmTime, ...]
    """Fastest first."""
    resolution: float
    """Half-width of the reference timed against itself, as a ratio minus 1."""
    bytes_moved: int
    """Each input once, each output once."""
    flops: int
    """Of matrix products and convolutions; others count as zero."""
    bytes_per_s: float
    """Measured copy rate, bytes read plus written, at the cache level that holds `bytes_moved`."""
    flops_per_s: float
    """Measured rate of a float32 matrix product."""
    floor_ns: float
    """The larger of the times that the bytes and the flops need at these rates."""
