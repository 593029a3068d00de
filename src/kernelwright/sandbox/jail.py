"""What a native worker gives up before it touches a Candidate, as far as this machine can do it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelwright.sandbox.landlock import SYSTEM, landlock_version, make_ruleset
from kernelwright.sandbox.seccomp import seccomp_usable

SandboxTier = Literal["A", "B", "C", "D"]
# linux/sched.h: a user namespace, which the others need where one is not root, and in it a mount,
# IPC, process and network namespace of its own.
_NAMESPACES = 0x10000000 | 0x00020000 | 0x08000000 | 0x20000000 | 0x40000000
COMPILER_NAMESPACES = 0x10000000 | 0x00020000 | 0x08000000 | 0x40000000
"""For a compiler: without that of processes, which it would be the first of."""
_PROBE = """
import ctypes, os, sys
if ctypes.CDLL(None).unshare(int(sys.argv[1])) != 0:
    sys.exit(1)
pid = os.fork()
if pid == 0:
    os._exit(0 if os.getpid() == 1 else 1)
sys.exit(os.waitpid(pid, 0)[1] != 0)
"""
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Jail:
    """The walls around a native worker. One that is missing lowers the tier."""

    namespaces: bool
    """No network, no other process in sight, no IPC; a signal or a pinned core reaches no one."""
    landlock: bool
    """No file but the system's libraries and the Candidate's own, and none to write."""
    seccomp: bool
    """Only the system calls that computing takes."""

    @property
    def tier(self) -> SandboxTier:
        """A: all three; C: no Landlock; D: a plain process with limits."""
        if self.namespaces and self.seccomp:
            return "A" if self.landlock else "C"
        return "D"

    def file_rules(self, *, read: Iterable[Path | str], write: Iterable[Path | str] = ()) -> int:
        """Landlock rules for the system's files and these; a descriptor of nothing without it.

        The caller closes it.
        """
        if not self.landlock:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return make_ruleset(read=[*SYSTEM, *read], write=write)

    @property
    def unshare_flags(self) -> int:
        """For unshare(2)."""
        return _NAMESPACES if self.namespaces else 0


NO_JAIL = Jail(namespaces=False, landlock=False, seccomp=False)


@functools.cache
def probe_jail() -> Jail:
    """Tries what works here, in a process of its own."""
    command = [sys.executable, "-I", "-c", _PROBE, str(_NAMESPACES)]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
        namespaces = tried.returncode == 0
    except (OSError, subprocess.SubprocessError):
        namespaces = False
    return Jail(namespaces=namespaces, landlock=landlock_version() > 0, seccomp=seccomp_usable())
