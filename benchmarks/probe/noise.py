"""What a second process does to times on one device, and how its activity shows to the first."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import statistics
import time
from typing import Any

from cuda.bindings import driver
from probe.driver import MIB, Device, checked
from probe.walls import Guest, Line, in_process

LENGTHS_US = (5, 50, 1000)
N = 200
TURNS = ("its kernel", "its copy on the device", "its fill", "its copy from the host")


def spread(taken: list[float]) -> dict[str, float]:
    """Microseconds."""
    ordered = sorted(taken)
    at = lambda share: round(1e6 * ordered[int(share * (len(ordered) - 1))], 2)  # noqa: E731
    return {"p05": at(0.05), "p50": at(0.5), "p95": at(0.95), "max": at(1.0)}


def switches() -> dict[str, Any]:
    """Wall time of launch and wait, for kernels of known length, beside a second process.

    That process stands idle, keeps the device busy, or does one thing before each timed kernel.
    """
    ways = ("alone", "idle", "busy", *TURNS)
    return {how: in_process(lambda how=how: _beside(how)) for how in ways}


def _beside(how: str) -> dict[str, Any]:
    guest = None if how == "alone" else Guest(lambda line: _take_turns(line, how))
    device = Device()
    if guest:
        guest.hear()
        if how == "busy":
            guest.line.say()
            time.sleep(0.2)
    found = {}
    for length in LENGTHS_US:
        taken, again = [], []
        for _ in range(N // 4 if how == "busy" else N):
            if guest and how in TURNS:
                guest.line.say()
                guest.hear()
            taken.append(_timed(device, length))
            again.append(_timed(device, length))
        found[f"{length} us"] = {"first": spread(taken[10:]), "second": spread(again[10:])}
    if guest:
        os.kill(guest.pid, signal.SIGKILL)
        os.waitpid(guest.pid, 0)
    return found


def _timed(device: Device, length_us: int) -> float:
    began = time.perf_counter()
    device.launch("spin", 1000 * length_us)
    device.wait()
    return time.perf_counter() - began


def _take_turns(line: Line, how: str) -> None:
    device = Device()
    size = 64 * MIB
    a, b = device.allocate(size), device.allocate(size)
    host = int(checked(driver.cuMemAllocHost(size)))
    acts = {
        "its kernel": lambda: device.add(a, size, 1.0),
        "its copy on the device": lambda: device.copy(b, a, size),
        "its fill": lambda: checked(driver.cuMemsetD32Async(a, 1, size // 4, device.stream)),
        "its copy from the host": lambda: checked(
            driver.cuMemcpyHtoDAsync(a, host, size, device.stream)
        ),
    }
    act = acts.get(how, acts["its kernel"])
    line.say(ready=True)
    while True:
        line.hear()
        act()
        device.wait()
        until = time.perf_counter() + (12.0 if how == "busy" else 0.0)
        while time.perf_counter() < until:
            act()
            device.wait()
        line.say(done=True)


def round_trip() -> dict[str, Any]:
    """Wake by pipe, launch, wait, answer by pipe: what the judge's clock sees of each length."""
    kinds = {"running": False, "frozen between": True}
    return {name: in_process(lambda frozen=f: _all_trips(frozen)) for name, f in kinds.items()}


def _all_trips(frozen: bool) -> dict[str, Any]:
    return {f"{n} us": _trips(n, frozen=frozen) for n in (0, *LENGTHS_US)}


def _trips(length_us: int, *, frozen: bool) -> dict[str, float]:
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        device = Device()
        os.write(up_write, b"r")
        while os.read(down_read, 1):
            if length_us:
                device.launch("spin", 1000 * length_us)
                device.wait()
            os.write(up_write, b"x")
        os._exit(0)
    os.read(up_read, 1)
    taken = []
    for _ in range(N):
        if frozen:
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED)
        began = time.perf_counter()
        os.write(down_write, b"g")
        if frozen:
            os.kill(pid, signal.SIGCONT)
        select.select([up_read], [], [])
        os.read(up_read, 1)
        taken.append(time.perf_counter() - began)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for fd in (down_read, down_write, up_read, up_write):
        os.close(fd)
    return spread(taken[10:])


def quiescence() -> dict[str, Any]:
    """A short kernel of ours while a stopped process has work on the device.

    Contexts share a device by time slices of about two milliseconds, so whatever that process has
    there, running or waiting, shows in the kernel's wall time: it waits for its slice. Inside the
    kernel nothing shows.
    """
    kinds = ("nothing", "one resident block", "resident blocks", "short kernels", "waiting")
    return {kind: in_process(lambda kind=kind: _watched(kind)) for kind in kinds}


def _watched(kind: str) -> dict[str, Any]:
    guest = Guest(lambda line: _lurk(line, kind))
    device = Device()
    out = device.allocate(2 * MIB)
    word, fd = device.share(2 * MIB)
    checked(driver.cuMemsetD32(word, 0, 4))
    guest.hear()
    guest.line.say(fds=(fd,))
    guest.hear()
    os.kill(guest.pid, signal.SIGSTOP)
    gaps, walls = [], []
    for _ in range(20):
        began = time.perf_counter()
        gap, _ = device.watch(300_000, out)
        walls.append(time.perf_counter() - began)
        gaps.append(gap / 1e9)
    found: dict[str, Any] = {"gap_us": spread(gaps), "wall_us": spread(walls)}
    if kind == "waiting":
        found |= _release(device, word, out)
    os.kill(guest.pid, signal.SIGCONT)
    os.kill(guest.pid, signal.SIGKILL)
    os.waitpid(guest.pid, 0)
    found["after_its_death_us"] = spread([device.watch(300_000, out)[0] / 1e9 for _ in range(5)])
    return found


def _release(device: Device, word: int, out: int) -> dict[str, Any]:
    """Writes the word that a stopped process's stream waits for: does its kernel run, seen?"""
    _, before = device.watch(300_000, out)
    checked(driver.cuMemsetD32Async(word, 1, 1, device.stream))
    gaps = [device.watch(300_000, out)[0] / 1e3 for _ in range(10)]
    told = device.read_words(word + 8, 1, ctypes.c_uint32)[0]
    return {
        "ran_while_stopped": told == 1,
        "gaps_after_release_us": gaps,
        "length_before_ns": before,
    }


def _lurk(line: Line, kind: str) -> None:
    device = Device()
    line.say(ready=True)
    _, fd = line.hear_with_fd()
    word = device.map_shared(fd, 2 * MIB)
    if kind == "one resident block":
        device.launch("spin", 10_000_000_000)
    elif kind == "resident blocks":
        device.launch("spin", 10_000_000_000, blocks=132 * 2, threads=1024)
    elif kind == "short kernels":
        for _ in range(900):
            device.launch("spin", 100_000)
    elif kind == "waiting":
        checked(driver.cuStreamWaitValue32(device.stream, word, 1, 1))  # EQ
        device.launch("spin", 50_000)
        checked(driver.cuStreamWriteValue32(device.stream, word + 8, 1, 0))
    line.say(ready=True)
    time.sleep(30)


def clocks() -> dict[str, Any]:
    """What NVML tells, and how long each reading takes."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    asked = {
        "sm_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "power_mw": lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, 0),
        "reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "processes": lambda: len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "compute_mode": lambda: pynvml.nvmlDeviceGetComputeMode(handle),
        "total_energy_mj": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle),
    }
    found: dict[str, Any] = {}
    for name, ask in asked.items():
        try:
            taken, value = [], None
            for _ in range(11):
                began = time.perf_counter()
                value = ask()
                taken.append(time.perf_counter() - began)
            found[name] = {"value": value, "us": round(1e6 * statistics.median(taken), 1)}
        except pynvml.NVMLError as error:
            found[name] = {"failed": str(error)}
    return found
