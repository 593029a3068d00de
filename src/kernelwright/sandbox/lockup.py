"""How a forked Python worker gives up what its Candidate must not have. Runs inside that worker.

The same walls as the native runner's, put up before any of the Candidate's code is imported. What a
submission needs while it loads stays: it may compile (`load_inline`, `torch.compile`), so it may
start programs, and may write to a folder of its own. Sources: user_namespaces(7), landlock(7),
seccomp(2), capset(2).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.sandbox.landlock import SYSTEM, make_ruleset, restrict_self

_PR_SET_NO_NEW_PRIVS = 38
_SYS_SECCOMP_X86_64, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 317, 1, 1
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CAPSET_X86_64 = 126
_DRIVER = ("/usr/local/nvidia", "/usr/local/cuda", "/proc", "/sys", "/dev")
"""What CUDA's driver reads beside the system."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """The walls around one Python worker, as its request carries them."""

    flags: int
    """Namespaces, for unshare(2); 0: none."""
    landlock: bool
    seccomp: str
    """The filter of system calls, hexadecimal; empty: none."""
    read: tuple[str, ...]
    """What it may read beside the system and the interpreter."""
    folder: str
    """Where it may write: its own caches and temporary files."""
    devices: tuple[str, ...] = ()
    """Nodes of an accelerator that it may open and control."""


def enter_namespaces(flags: int) -> None:
    """Leaves this machine's; the next child is the first process of the new ones.

    Raises:
        OSError: the kernel refuses.
    """
    user, group = os.getuid(), os.getgid()
    _checked(_libc.unshare(flags), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def lock_in(cell: Cell, start: Callable[[], None]) -> None:
    """The last step before code that is not trusted is imported.

    `start` maps what is shared with the judge and may start a device's driver. Its threads begin
    behind the rules for files, which no thread can be given later (Landlock holds for the calling
    thread and those it starts), and before the filter of system calls, which all threads get.

    Raises:
        OSError: the kernel refuses.
        DeviceRefused: the device does.
    """
    _use_folder(cell.folder)
    if cell.devices and cell.flags:
        _renew_proc()
    if cell.flags:
        _drop_capabilities()
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if cell.landlock:
        found = [sys.prefix, sys.base_prefix, *filter(None, sys.path), *cell.read]
        rules = make_ruleset(
            read=[*SYSTEM, *found, *(_DRIVER if cell.devices else ())],
            write=[cell.folder, "/dev/null", *(["/proc/self"] if cell.devices else [])],
            devices=cell.devices,
        )
        restrict_self(rules)
    start()
    if cell.seccomp:
        _filter_calls(bytes.fromhex(cell.seccomp))


def _renew_proc() -> None:
    """CUDA's driver looks itself up in /proc, which must show this namespace's processes.

    Where the kernel forbids it (a container that masks parts of /proc), the driver's own error
    follows.
    """
    _libc.mount(b"proc", b"/proc", b"proc", 0, None)


def _use_folder(folder: str) -> None:
    for name in (
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "TRITON_CACHE_DIR",
        "TMPDIR",
        "HOME",
    ):
        place = Path(folder, name.lower())
        place.mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(place)
    tempfile.tempdir = None
    os.chdir(folder)


def _drop_capabilities() -> None:
    """Whoever makes a user namespace may do anything in it; a Candidate need not."""
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.syscall(_SYS_CAPSET_X86_64, header, bytes(24)), "capset")


def _filter_calls(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    steps = len(program) // 8
    filter_ = struct.pack("<HxxxxxxQ", steps, ctypes.addressof(buffer))
    call = (_SYS_SECCOMP_X86_64, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, filter_)
    _checked(_libc.syscall(*call), "seccomp")


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
