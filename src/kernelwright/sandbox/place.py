"""Where a worker's tensors lie: in the host's memory, or in a device's. Runs inside workers."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any, Protocol

_MAP_FAILED = 2**64 - 1  # sys/mman.h
_libc = ctypes.CDLL(None, use_errno=True)
Call = Callable[[], list[Any]]


class Place(Protocol):
    """What differs between the two."""

    device: str
    arena: Any
    """The inputs' bytes, a uint8 tensor; once started."""
    base: int
    """Where the judge is told that this worker's memory begins."""

    def start(self) -> None:
        """Maps what is shared. On a device this is where its driver starts."""
        ...

    def serve(self, call: Call) -> Call:
        """The call as it is timed: it ends when its work has."""
        ...


class HostPlace:
    """The arena, mapped for reading."""

    device = "cpu"

    def __init__(self, arena_fd: int, nbytes: int) -> None:
        """`nbytes`: of the arena."""
        self._fd, self._nbytes = arena_fd, nbytes

    def start(self) -> None:
        """Maps with MAP_POPULATE: no first call pays a page fault for its inputs."""
        import torch

        _libc.mmap.restype = ctypes.c_void_p
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        size = ctypes.c_size_t(self._nbytes)
        address = _libc.mmap(None, size, mmap.PROT_READ, flags, self._fd, 0)
        if address in (None, _MAP_FAILED):
            raise OSError(ctypes.get_errno(), "the inputs cannot be mapped")
        os.close(self._fd)
        buffer = (ctypes.c_uint8 * self._nbytes).from_address(address)
        self.arena: Any = torch.frombuffer(buffer, dtype=torch.uint8)
        self.base: int = address

    def serve(self, call: Call) -> Call:
        """See `Place`."""
        return call


class DevicePlace:
    """An arena of its own, and a pool from which torch allocates everything else."""

    device = "cuda"

    def __init__(
        self, arena_fd: int, arena_bytes: int, pool_fd: int, pool_bytes: int, *, allocator: str
    ) -> None:
        """`allocator`: the shared object of pool.c."""
        self._arena, self._pool = (arena_fd, arena_bytes), (pool_fd, pool_bytes)
        self._allocator = allocator

    def start(self) -> None:
        """Raises DeviceRefused."""
        import torch

        from kernelwright.sandbox.device_memory import map_device_memory

        self.arena, _ = map_device_memory(*self._arena)
        self._memory, self.base = map_device_memory(*self._pool)
        library = ctypes.CDLL(self._allocator)
        library.kw_pool_use(ctypes.c_void_p(self.base), ctypes.c_size_t(self._pool[1]))
        plugged = torch.cuda.memory.CUDAPluggableAllocator(
            self._allocator, "kw_pool_alloc", "kw_pool_free"
        )
        self._own = torch.cuda.MemPool(plugged.allocator())
        self._use = torch.cuda.use_mem_pool(self._own)
        self._use.__enter__()  # for good: whatever this thread allocates lies in the pool

    def serve(self, call: Call) -> Call:
        """See `Place`."""
        import torch

        wait = torch.cuda.synchronize

        def finished() -> list[Any]:
            outputs = call()
            wait()
            return outputs

        return finished
