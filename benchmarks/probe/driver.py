"""The CUDA driver's calls that the probe needs, each checked, and three kernels of its own."""

from __future__ import annotations

import ctypes
import functools
import statistics
import time
from collections.abc import Callable

from cuda.bindings import driver, nvrtc

SOURCE = rb"""
extern "C" __global__ void spin(long long ns) {  // one block: busy for so many nanoseconds
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < ns);
}
extern "C" __global__ void watch(long long ns, long long *out) {
    // The longest time between two looks at the clock: another context had the device meanwhile.
    long long start, now, last, gap = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    last = start;
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - last > gap) gap = now - last;
        last = now;
    } while (now - start < ns);
    out[0] = gap; out[1] = start; out[2] = now;
}
extern "C" __global__ void add(float *x, long long n, float by) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
        x[i] += by;
}
"""
MIB = 1 << 20
_FD = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class CudaRefused(Exception):
    """A call of the driver failed; the text names the error."""


def checked(result):
    """The values of a binding's answer.

    Raises:
        CudaRefused: the status is not success.
    """
    status, *values = result
    if int(status) != 0:
        raise CudaRefused(status.name)
    return values[0] if len(values) == 1 else values


class Device:
    """The first device, with a context of this process's own and the kernels loaded."""

    def __init__(self) -> None:
        began = time.perf_counter()
        checked(driver.cuInit(0))
        self.device = checked(driver.cuDeviceGet(0))
        context = checked(driver.cuDevicePrimaryCtxRetain(self.device))
        checked(driver.cuCtxSetCurrent(context))
        self.start_s = time.perf_counter() - began
        self.module = checked(driver.cuModuleLoadData(cubin(self.architecture())))
        self.stream = checked(driver.cuStreamCreate(1))

    def architecture(self) -> str:
        major = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        minor = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        numbers = [checked(driver.cuDeviceGetAttribute(a, self.device)) for a in (major, minor)]
        return "sm_" + "".join(map(str, numbers))

    def launch(self, name: str, *values, blocks: int = 1, threads: int = 1) -> None:
        """`values`: ints are 64 bits wide, floats 32."""
        function = checked(driver.cuModuleGetFunction(self.module, name.encode()))
        kinds = tuple(ctypes.c_float if isinstance(v, float) else ctypes.c_int64 for v in values)
        parameters = (tuple(values), kinds)
        stream = self.stream
        checked(
            driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, 0)
        )

    def add(self, pointer: int, nbytes: int, by: float) -> None:
        self.launch("add", pointer, nbytes // 4, by, blocks=132 * 8, threads=256)

    def wait(self) -> None:
        checked(driver.cuStreamSynchronize(self.stream))

    def allocate(self, nbytes: int) -> int:
        return int(checked(driver.cuMemAlloc(nbytes)))

    def copy(self, to: int, source: int, nbytes: int) -> None:
        checked(driver.cuMemcpyDtoDAsync(to, source, nbytes, self.stream))

    def read_words(self, pointer: int, n: int, kind=ctypes.c_int64) -> list:
        words = (kind * n)()
        checked(driver.cuMemcpyDtoH(ctypes.addressof(words), pointer, ctypes.sizeof(words)))
        return list(words)

    def watch(self, ns: int, out: int) -> tuple[int, int]:
        """Longest gap and length, nanoseconds, of a kernel that looks at the clock for `ns`."""
        self.launch("watch", ns, out)
        self.wait()
        gap, start, end = self.read_words(out, 3)
        return gap, end - start

    def seconds(self, act: Callable[[], object], repeats: int = 15) -> float:
        """Median wall time of an act and the wait for it."""
        taken = []
        for _ in range(repeats + 3):
            self.wait()
            began = time.perf_counter()
            act()
            self.wait()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken[3:])

    def share(self, nbytes: int) -> tuple[int, int]:
        """Memory that another process may map: its address here, and a descriptor."""
        properties = self._properties()
        handle = checked(driver.cuMemCreate(nbytes, properties, 0))
        fd = int(checked(driver.cuMemExportToShareableHandle(handle, _FD, 0)))
        return self._map(handle, nbytes), fd

    def map_shared(self, fd: int, nbytes: int) -> int:
        """The address here of memory that another process shares."""
        return self._map(checked(driver.cuMemImportFromShareableHandle(fd, _FD)), nbytes)

    def _map(self, handle, nbytes: int) -> int:
        address = checked(driver.cuMemAddressReserve(nbytes, 0, 0, 0))
        checked(driver.cuMemMap(address, nbytes, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = self._properties().location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        checked(driver.cuMemSetAccess(address, nbytes, [access], 1))
        return int(address)

    def _properties(self):
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        properties.requestedHandleTypes = _FD
        return properties


def legacy_handle(pointer: int) -> bytes:
    """64 bytes that name an allocation of cuMemAlloc to other processes."""
    return bytes(checked(driver.cuIpcGetMemHandle(pointer)).reserved)


def open_legacy(handle: bytes) -> int:
    """The address here of the allocation that a handle names."""
    named = driver.CUipcMemHandle()
    named.reserved = handle
    flag = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
    return int(checked(driver.cuIpcOpenMemHandle(named, flag.value)))


@functools.cache
def cubin(architecture: str) -> bytes:
    """The kernels, compiled for one architecture; needs no device."""
    program = checked(nvrtc.nvrtcCreateProgram(SOURCE, b"probe.cu", 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode()]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    code = bytes(checked(nvrtc.nvrtcGetCUBINSize(program)))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    return code
