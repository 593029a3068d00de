"""How much of the machine others used while something was timed.

A pair of adjacent calls cancels what slows both arms alike. Neighbours do not: they take a core
from a baseline on every core, and nothing from a candidate on one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # proc(5), cpuN: user nice system irq softirq steal


class Occupancy:
    """Counts from its making on. Steal counts too: it is a neighbour on the host."""

    def __init__(self, own_ns: Callable[[], int]) -> None:
        """`own_ns` tells the CPU time used so far by all that is ours, in ns."""
        self._own_ns = own_ns
        self._began = (time.monotonic_ns(), busy_ns(), own_ns())

    def foreign_cores(self) -> float:
        """How many of the usable cores others have kept busy so far, on average."""
        wall = time.monotonic_ns() - self._began[0]
        busy, own = busy_ns() - self._began[1], self._own_ns() - self._began[2]
        return max((busy - own) / wall, 0.0)


def busy_ns() -> int:
    """CPU time spent on the cores that this process may use, since boot; 0 where none is told."""
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except OSError:
        return 0
    ticks = sum(int(row[1 + at]) for row in rows if row and row[0] in mine for at in _BUSY_FIELDS)
    return ticks * _TICK_NS
