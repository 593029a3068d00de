"""Where the threads of a stopped process are: program counters, stacks and mapped code.

The kernel tells it to whoever may read the process's memory. The process has no part in it, so it
cannot say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelwright.sandbox.orphans import threads_of

_IN_USER_CODE = "-1"  # proc(5), /proc/pid/syscall: in no system call


@dataclass(frozen=True, slots=True)
class ThreadAt:
    """One thread of a stopped process."""

    pc: int
    sp: int
    running: bool
    """It was computing; otherwise it waited in a system call."""


@dataclass(frozen=True, slots=True)
class CodeMap:
    """The executable mappings of a process, by rising address."""

    starts: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    """Of the mapping in its file."""
    files: tuple[tuple[str, int], ...]
    """Path as the process sees it and inode; ("", 0) for code that is in no file."""

    def find(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Index of the mapping each address is in, -1 for none, and its offset in the file."""
        at = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        inside = (at >= 0) & (addresses < self.ends[at])
        at = np.where(inside, at, -1)
        return at, np.where(inside, addresses - self.starts[at] + self.offsets[at], 0)


def threads_at(pid: int) -> list[ThreadAt]:
    """Where each thread of a stopped process stands; those that have just ended are left out."""
    found = []
    for task in threads_of(pid):
        try:
            words = (task / "syscall").read_text().split()
        except OSError:
            continue
        if len(words) >= 3:  # one word, "running": it has not stopped
            pc, sp = int(words[-1], 16), int(words[-2], 16)
            found.append(ThreadAt(pc, sp, words[0] == _IN_USER_CODE))
    return found


def code_map(pid: int) -> CodeMap:
    """The executable mappings of a process now; none where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    rows = [line.split(None, 5) for line in lines]
    rows = [row for row in rows if "x" in row[1]]
    spans = [tuple(int(end, 16) for end in row[0].split("-")) for row in rows]
    return CodeMap(
        starts=np.array([start for start, _ in spans], dtype=np.uint64),
        ends=np.array([end for _, end in spans], dtype=np.uint64),
        offsets=np.array([int(row[2], 16) for row in rows], dtype=np.uint64),
        files=tuple((row[5] if len(row) > 5 else "", int(row[4])) for row in rows),
    )
