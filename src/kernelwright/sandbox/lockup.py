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
from dataclasses import dataclass
from pathlib import Path

from kernelwright.sandbox.landlock import SYSTEM, make_ruleset, restrict_self

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CAPSET_X86_64 = 126
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


def lock_in(cell: Cell) -> None:
    """The last step before code that is not trusted is imported.

    Raises:
        OSError: the kernel refuses.
    """
    _use_folder(cell.folder)
    if cell.flags:
        _drop_capabilities()
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if cell.landlock:
        found = [sys.prefix, sys.base_prefix, *filter(None, sys.path), *cell.read]
        rules = make_ruleset(read=[*SYSTEM, *found], write=[cell.folder, "/dev/null"])
        restrict_self(rules)
    if cell.seccomp:
        _filter_calls(bytes.fromhex(cell.seccomp))


def _use_folder(folder: str) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TMPDIR", "HOME"):
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
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, 0, 0), "seccomp")


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
