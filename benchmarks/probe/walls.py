"""Forks the processes of a probe: an owner of device memory, and a guest behind chosen walls."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.sandbox.landlock import SYSTEM, make_ruleset, restrict_self
from kernelwright.sandbox.seccomp import serving_filter, working_filter

_USER, _NET, _IPC, _MOUNT, _PROCESS = 0x10000000, 0x40000000, 0x08000000, 0x00020000, 0x20000000
_NOBODY = 65534
_LIMIT_S = 60.0
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Walls:
    """What a guest gives up, before CUDA starts in it and after."""

    uid: int | None = None
    """Another user, from before CUDA starts."""
    unshare: int = 0
    """Namespaces left before CUDA starts: its threads would forbid a user namespace later."""
    fresh_proc: bool = False
    """With a PID namespace: /proc is mounted anew in it."""
    landlock: tuple[str, ...] | None = None
    """What may be written beside the card's own nodes; the system may be read."""
    landlock_late: bool = False
    """After CUDA has started, when its threads are no longer reached by it."""
    filter_: str = ""
    """After CUDA has started, on all its threads: "serving" or "working", of the CPU workers."""


_ALL = _USER | _PROCESS | _MOUNT | _IPC | _NET
WALLS = {
    "plain": Walls(),
    "other user": Walls(uid=_NOBODY),
    "user and network namespace": Walls(unshare=_USER | _NET),
    "user and IPC namespace": Walls(unshare=_USER | _IPC),
    "user and mount namespace": Walls(unshare=_USER | _MOUNT),
    "PID namespace, old /proc": Walls(unshare=_PROCESS | _MOUNT),
    "PID namespace, fresh /proc": Walls(unshare=_PROCESS | _MOUNT, fresh_proc=True),
    "all namespaces, fresh /proc": Walls(unshare=_ALL, fresh_proc=True),
    "Landlock after the start": Walls(landlock=(), landlock_late=True),
    "Landlock before, nothing to write": Walls(landlock=()),
    "Landlock before, /proc/self to write": Walls(landlock=("/proc/self",)),
    "Landlock before, /proc to write": Walls(landlock=("/proc",)),
    "filter for Python workers": Walls(filter_="working"),
    "filter for native workers": Walls(filter_="serving"),
    "all but PID namespace": Walls(
        unshare=_USER | _NET | _IPC | _MOUNT, landlock=("/proc",), filter_="working"
    ),
    "all, Python's filter": Walls(
        unshare=_ALL, fresh_proc=True, landlock=("/proc",), filter_="working"
    ),
    "all, native filter": Walls(
        unshare=_ALL, fresh_proc=True, landlock=("/proc",), filter_="serving"
    ),
    "all, other user": Walls(
        uid=_NOBODY, unshare=_ALL, fresh_proc=True, landlock=("/proc",), filter_="working"
    ),
}


def enter(walls: Walls) -> None:
    """The part that comes before CUDA. With a PID namespace the caller goes on in a child."""
    if walls.uid is not None:
        os.setgroups([])
        os.setgid(walls.uid)
        os.setuid(walls.uid)
        _libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is its own again
    if walls.unshare:
        _unshare(walls.unshare)
    if walls.unshare & _PROCESS:
        pid = os.fork()
        if pid:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
        if walls.fresh_proc and _libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "mount /proc")
    if walls.landlock is not None and not walls.landlock_late:
        _restrict(walls.landlock)


def close_in(walls: Walls) -> None:
    """The part that comes once CUDA has started."""
    if walls.landlock is not None and walls.landlock_late:
        _restrict(walls.landlock)
    if walls.filter_:
        _libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        program = serving_filter() if walls.filter_ == "serving" else working_filter()
        buffer = ctypes.create_string_buffer(program, len(program))
        filter_ = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
        if _libc.syscall(317, 1, 1, filter_) != 0:  # seccomp: SET_MODE_FILTER, TSYNC
            raise OSError(ctypes.get_errno(), "seccomp on all threads")


def _restrict(write: tuple[str, ...]) -> None:
    _libc.prctl(38, 1, 0, 0, 0)
    nodes = [str(path) for path in Path("/dev").glob("nvidia*")]
    driver = ["/usr/local/nvidia", "/sys", "/proc", "/dev"]
    read = [*SYSTEM, *driver, sys.prefix, sys.base_prefix, *filter(None, sys.path)]
    restrict_self(make_ruleset(read=read, write=write, devices=nodes))


def _unshare(flags: int) -> None:
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), f"unshare {flags:#x}")
    if flags & _USER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


class Line:
    """One end of a line between two processes: JSON, and descriptors beside it.

    Without descriptors it needs `read` and `write` alone, which the filters of workers allow.
    """

    def __init__(self, end: socket.socket, *, patient: bool = False) -> None:
        self._end = end
        self.patient = patient

    def say(self, *, fds: tuple[int, ...] = (), **facts: Any) -> None:
        data = json.dumps(facts).encode()
        if fds:
            socket.send_fds(self._end, [data], list(fds))
        else:
            os.write(self._end.fileno(), data)

    def hear(self) -> dict[str, Any]:
        """Raises EOFError: the other end is gone."""
        self._wait()
        data = os.read(self._end.fileno(), 1 << 20)
        if not data:
            raise EOFError("the other process ended")
        return json.loads(data)

    def hear_with_fd(self) -> tuple[dict[str, Any], int]:
        """The same with a descriptor beside it."""
        data, fds, _, _ = socket.recv_fds(self._end, 1 << 20, 4)
        if not fds:
            raise EOFError("the other process ended")
        return json.loads(data), fds[0]

    def _wait(self) -> None:
        """`poll` is denied to native workers, and so is a socket's own time limit."""
        if self.patient:
            return
        if not select.select([self._end], [], [], _LIMIT_S)[0]:
            raise TimeoutError(f"no word within {_LIMIT_S:g} s")


def in_process(act: Callable[[], Any]) -> Any:
    """What `act` returns in a process of its own, or {"failed": why}: CUDA starts once in each."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        try:
            Line(theirs).say(found=act())
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1].lineno
            Line(theirs).say(found={"failed": f"{type(error).__name__}: {error} (line {where})"})
        os._exit(0)
    theirs.close()
    try:
        return Line(ours).hear()["found"]
    except (EOFError, OSError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        ours.close()
        _end(pid)


class Guest:
    """A process that serves `act(line)` beside the owner; forked before CUDA starts in either."""

    def __init__(self, act: Callable[[Line], None], walls: Walls = Walls()) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line = Line(ours)
        self._ended = False
        self.pid = os.fork()
        if self.pid:
            theirs.close()
            return
        ours.close()
        line = Line(theirs, patient=True)
        try:
            enter(walls)
            act(line)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({where.name})"
            line.say(failed=text)
        os._exit(0)

    def hear(self) -> dict[str, Any]:
        """Raises RuntimeError: the guest failed; the text says how."""
        facts = self.line.hear()
        if "failed" in facts:
            raise RuntimeError(facts["failed"])
        return facts

    def end(self) -> None:
        """Waits for it, then ends it; once."""
        if not self._ended:
            self._ended = True
            _end(self.pid)


def _end(pid: int) -> None:
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
