"""Device memory that the judge owns and one worker maps: a piece of its own and nothing beside it.

By the driver's virtual memory calls and a file descriptor, which crosses users and namespaces. The
older handles of `cudaMalloc` are not used: one of them opens the neighbours of a small allocation
as well, to read and to write (`benchmarks/gpu_probe.py` shows it). Whoever maps the memory may
write it; the judge therefore keeps its own copy of every input.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernelwright.core.errors import DeviceRefused
from kernelwright.sandbox.arena import lay_out
from kernelwright.sandbox.wire import TensorLayout

_ALIGN = 512  # what torch's own allocations are aligned to
_GRANULARITY = 2 << 20


class DeviceMemory:
    """A piece of the first device's memory, shared by whoever is given `fd`."""

    def __init__(self, nbytes: int) -> None:
        """Raises DeviceRefused: there is not so much, or no device."""
        driver = _driver()
        self.nbytes = -(-max(nbytes, 1) // _GRANULARITY) * _GRANULARITY
        handle = _checked(driver.cuMemCreate(self.nbytes, _properties(driver), 0), "cuMemCreate")
        kind = _handle_kind(driver)
        exported = driver.cuMemExportToShareableHandle(handle, kind, 0)
        self.fd = int(_checked(exported, "cuMemExportToShareableHandle"))
        os.set_inheritable(self.fd, False)
        self.address = _map(driver, handle, self.nbytes)
        self.bytes: Any = _as_bytes(self.address, self.nbytes)
        """A uint8 tensor of all of it."""

    def close(self) -> None:
        """Gives the judge's part back; the memory goes when the worker's does."""
        driver = _driver()
        self.bytes = None
        os.close(self.fd)
        driver.cuMemUnmap(self.address, self.nbytes)
        driver.cuMemAddressFree(self.address, self.nbytes)


class DeviceArena:
    """The inputs of one worker, which may write them: so each has an arena of its own."""

    def __init__(self, layouts: Sequence[TensorLayout]) -> None:
        """Raises DeviceRefused."""
        self.slots, nbytes = lay_out(layouts, align=_ALIGN)
        self._memory = DeviceMemory(nbytes)
        self.nbytes, self.fd = self._memory.nbytes, self._memory.fd

    def slot(self, at: int) -> Any:
        """The bytes of one slot, as a uint8 tensor in the shared memory."""
        layout = self.slots[at]
        return self._memory.bytes[layout.address : layout.address + layout.nbytes]

    def write(self, at: int, data: Any) -> None:
        """Puts the raw bytes of one slot's storage in place: a uint8 tensor on the device."""
        self.slot(at).copy_(data)

    def close(self) -> None:
        """See `DeviceMemory.close`."""
        self._memory.close()


def map_device_memory(fd: int, nbytes: int) -> tuple[Any, int]:
    """In a worker: the memory behind a descriptor as a uint8 tensor, and its address.

    Raises:
        DeviceRefused: the driver refuses.
    """
    driver = _driver()
    handle = _checked(
        driver.cuMemImportFromShareableHandle(fd, _handle_kind(driver)),
        "cuMemImportFromShareableHandle",
    )
    address = _map(driver, handle, nbytes)
    os.close(fd)
    return _as_bytes(address, nbytes), address


def _driver() -> Any:
    """With torch's own context current: both sides use the device through torch as well."""
    import torch

    try:
        from cuda.bindings import driver

        torch.cuda.init()
        torch.cuda.current_stream().synchronize()
    except (ImportError, RuntimeError, AssertionError) as error:
        raise DeviceRefused(" ".join(str(error).split())) from error
    return driver


def _map(driver: Any, handle: Any, nbytes: int) -> int:
    address = _checked(driver.cuMemAddressReserve(nbytes, 0, 0, 0), "cuMemAddressReserve")
    _checked(driver.cuMemMap(address, nbytes, 0, handle, 0), "cuMemMap")
    access = driver.CUmemAccessDesc()
    access.location = _properties(driver).location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    _checked(driver.cuMemSetAccess(address, nbytes, [access], 1), "cuMemSetAccess")
    _checked(driver.cuMemRelease(handle), "cuMemRelease")  # the mapping keeps it alive
    return int(address)


def _properties(driver: Any) -> Any:
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    properties.requestedHandleTypes = _handle_kind(driver)
    return properties


def _handle_kind(driver: Any) -> Any:
    kinds = driver.CUmemAllocationHandleType
    return kinds.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class _Raw:
    """Memory as torch takes it over without a copy (numba's CUDA array interface, version 3)."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _as_bytes(address: int, nbytes: int) -> Any:
    import torch

    return torch.as_tensor(_Raw(address, nbytes), device="cuda")


def _checked(answer: Any, what: str) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise DeviceRefused(f"{what}: {status.name}")
    return values[0] if values else None
