"""The shared memory that holds one call's inputs. The judge writes it, workers only read it."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelwright.sandbox.wire import TensorLayout

_ALIGN = 4096
_F_SEAL_FUTURE_WRITE = 0x10  # linux/fcntl.h; Python has no name for it before 3.13
_POISON_STEP, _POISONED_AT_MOST = 512, 8192


def lay_out(layouts: Sequence[TensorLayout], *, align: int) -> tuple[tuple[TensorLayout, ...], int]:
    """The slots one behind the other, each at a multiple of `align`, and the bytes they take."""
    placed, at = [], 0
    for layout in layouts:
        placed.append(replace(layout, address=at))
        at += -(-max(layout.nbytes, 1) // align) * align
    return tuple(placed), max(at, align)


class Arena:
    """Slots in one memfd, each on its own page. Sealed: a later mapping cannot be writable."""

    def __init__(self, layouts: Sequence[TensorLayout]) -> None:
        self.slots, self.nbytes = lay_out(layouts, align=_ALIGN)
        self.fd = os.memfd_create("kernelwright-inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.nbytes)
        self._map = mmap.mmap(self.fd, self.nbytes)
        self._bytes: Any = np.frombuffer(self._map, dtype=np.uint8)
        fcntl.fcntl(
            self.fd,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _F_SEAL_FUTURE_WRITE,
        )

    def write(self, slot: int, data: np.ndarray) -> None:
        """Puts the raw bytes of one slot's storage in place. `data` is uint8, `nbytes` long."""
        layout = self.slots[slot]
        self._bytes[layout.address : layout.address + layout.nbytes] = data

    def poison(self, slot: int) -> None:
        """Flips bytes all over: an output that aliases this slot can no longer be right.

        Doing it twice undoes it.
        """
        layout = self.slots[slot]
        step = max(_POISON_STEP, layout.nbytes // _POISONED_AT_MOST) | 1  # odd: every byte's turn
        self._bytes[layout.address : layout.address + layout.nbytes : step] ^= 0x55

    def close(self) -> None:
        """Gives the memory back; workers keep their own mapping until they end."""
        self._bytes = None
        with contextlib.suppress(BufferError):  # a caller's view keeps the mapping until it goes
            self._map.close()
        os.close(self.fd)
