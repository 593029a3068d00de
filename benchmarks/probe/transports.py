"""How device memory gets from the judge to a worker and back: which ways work, and how fast."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver
from probe.driver import MIB, CudaRefused, Device, checked, legacy_handle, open_legacy
from probe.walls import WALLS, Guest, Line, Walls, close_in, in_process

SIZE = 256 * MIB
SMALL = 64 << 10
ONE = 0x3F800000  # 1.0


def across_walls() -> dict[str, Any]:
    """Each way, tried by a guest behind each kind of wall."""
    return {name: _tried(walls) for name, walls in WALLS.items()}


def _tried(walls: Walls) -> dict[str, Any]:
    return in_process(lambda: _owner(walls))


def _owner(walls: Walls) -> dict[str, Any]:
    guest = Guest(lambda line: _guest(line, walls), walls)
    device = Device()
    found: dict[str, Any] = guest.hear()
    named, (shared, fd) = device.allocate(SIZE), device.share(SIZE)
    for memory in (named, shared):
        checked(driver.cuMemsetD32(memory, ONE, SIZE // 4))
    guest.line.say(fds=(fd,), handle=legacy_handle(named).hex())
    os.close(fd)
    found |= guest.hear()
    for name, memory in (("legacy", named), ("shared", shared)):
        there = device.read_words(memory, 1, ctypes.c_float)[0]
        found[name]["owner_sees_writes"] = there == 3.0
    try:
        found["owner_reads_legacy"] = _read_guest(device, guest)
    except (RuntimeError, CudaRefused) as error:
        found["owner_reads_legacy"] = {"failed": str(error)}
    guest.end()
    return found


def _guest(line: Line, walls: Walls) -> None:
    device = Device()
    line.say(cuda_start_ms=round(1e3 * device.start_s, 1))
    asked, fd = line.hear_with_fd()
    close_in(walls)
    mine = device.allocate(SIZE)
    device.add(mine, SIZE, 1.0)
    device.wait()
    line.say(
        works_behind_the_walls=True,
        legacy=_use(device, lambda: open_legacy(bytes.fromhex(asked["handle"]))),
        shared=_use(device, lambda: device.map_shared(fd, SIZE)),
    )
    line.say(handle=legacy_handle(mine).hex())
    line.hear()


def _use(device: Device, open_: Callable[[], int]) -> dict[str, Any]:
    """Reads the pattern, adds 2 to it once, and copies out of it."""
    try:
        began = time.perf_counter()
        there = open_()
        opened_ms = 1e3 * (time.perf_counter() - began)
        right = device.read_words(there, 1, ctypes.c_float)[0] == 1.0
        device.add(there, SIZE, 2.0)
        device.wait()
        own = device.allocate(SIZE)
        copy_s = device.seconds(lambda: device.copy(own, there, SIZE))
    except CudaRefused as error:
        return {"failed": str(error)}
    rate = round(2 * SIZE / copy_s / 1e9)
    return {"open_ms": round(opened_ms, 3), "guest_reads": right, "copy_gb_s": rate}


def _read_guest(device: Device, guest: Guest) -> dict[str, Any]:
    """The judge opens a worker's allocation, copies it, and again once the worker is dead."""
    handle = bytes.fromhex(guest.hear()["handle"])
    began = time.perf_counter()
    there = open_legacy(handle)
    opened_ms = 1e3 * (time.perf_counter() - began)
    own = device.allocate(SIZE)
    copy_s = device.seconds(lambda: device.copy(own, there, SIZE))
    guest.line.say()
    guest.end()
    try:
        device.copy(own, there, SIZE)
        device.wait()
        after = "still readable"
    except CudaRefused as error:
        after = str(error)
    return {
        "open_ms": round(opened_ms, 3),
        "copy_gb_s": round(2 * SIZE / copy_s / 1e9),
        "once_the_guest_is_dead": after,
        "owner_still_works": _works(device),
    }


def _works(device: Device) -> bool:
    try:
        device.launch("spin", 1000)
        device.wait()
    except CudaRefused:
        return False
    return True


def what_a_handle_exposes() -> dict[str, Any]:
    """Whether a handle of a small allocation shows its neighbours, and what a forged one does."""
    return {"legacy": _neighbours(), "forged": _forged()}


def _neighbours() -> dict[str, Any]:
    def owner() -> dict[str, Any]:
        guest = Guest(_look_around)
        device = Device()
        lent, private = device.allocate(SMALL), device.allocate(SMALL)
        checked(driver.cuMemsetD32(private, ONE, SMALL // 4))
        guest.line.say(handle=legacy_handle(lent).hex(), offset=private - lent)
        facts = guest.hear()
        written = device.read_words(private, 1, ctypes.c_float)[0] == 3.0
        return {"offset_of_private": private - lent, "private_memory_written": written, **facts}

    return in_process(owner)


def _look_around(line: Line) -> None:
    device = Device()
    asked = line.hear()
    there = open_legacy(bytes.fromhex(asked["handle"]))
    try:  # a kernel: the driver refuses to copy from an address it did not hand out
        device.add(there + asked["offset"], SMALL, 2.0)
        device.wait()
        line.say(guest_kernel="ran")
    except CudaRefused as error:
        line.say(guest_kernel=str(error))


def _forged() -> dict[str, Any]:
    def owner() -> dict[str, Any]:
        device = Device()
        answers = []
        for handle in (bytes(64), os.urandom(64), b"\xff" * 64):
            try:
                open_legacy(handle)
                answers.append("opened")
            except CudaRefused as error:
                answers.append(str(error))
        return {"answers": answers, "owner_still_works": _works(device)}

    return in_process(owner)


def through_the_host() -> dict[str, Any]:
    """A memfd that both processes map and register as page-locked: there and back."""

    def owner() -> dict[str, Any]:
        device = Device()
        fd = os.memfd_create("staging")
        os.ftruncate(fd, SIZE)
        host = mmap.mmap(fd, SIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(host))
        began = time.perf_counter()
        checked(driver.cuMemHostRegister(address, SIZE, 0))
        register_ms = 1e3 * (time.perf_counter() - began)
        memory, stream = device.allocate(SIZE), device.stream
        down = device.seconds(
            lambda: checked(driver.cuMemcpyHtoDAsync(memory, address, SIZE, stream))
        )
        up = device.seconds(
            lambda: checked(driver.cuMemcpyDtoHAsync(address, memory, SIZE, stream))
        )
        small = device.seconds(
            lambda: checked(driver.cuMemcpyDtoHAsync(address, memory, 4096, stream))
        )
        return {
            "register_ms": round(register_ms, 2),
            "host_to_device_gb_s": round(SIZE / down / 1e9, 1),
            "device_to_host_gb_s": round(SIZE / up / 1e9, 1),
            "four_kib_us": round(1e6 * small, 1),
        }

    return in_process(owner)
