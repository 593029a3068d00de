"""A warm process: torch is imported once, then every worker is a fork of it.

Importing torch costs 2 to 9 seconds, a fork 5 milliseconds. The zygote never sees a seed, an input
or an oracle, and never runs an OpenMP region: children of a process that did would hang at their
first one.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox.limits import python_command, worker_environment
from kernelwright.sandbox.lockup import Cell, enter_namespaces

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MAX_REQUEST = 1 << 22
_MOST_FDS = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class ZygoteDied(Exception):
    """The warm process ended; the text is what it last wrote to its log."""


class Zygote:
    """The judge's handle on the warm process. Workers are adopted by the judge, their reaper."""

    def __init__(self, cache: Path, log: Path) -> None:
        become_reaper()
        cache.mkdir(parents=True, exist_ok=True)
        self._log = log
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST)
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                python_command(str(theirs.fileno()), str(os.getpid())),
                env=worker_environment(cache),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        theirs.close()
        self._socket = ours

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Blocks until torch is imported. Raises ZygoteDied."""
        self._socket.settimeout(timeout_s)
        self._answer()

    def fork(self, request: bytes, fds: list[int]) -> int:
        """Starts a worker and returns its process id.

        Args:
            request: JSON for `worker.run_worker`.
            fds: wake (read end), reply (write end), log, then its shared memory; duplicated into
                the worker.

        Raises:
            SandboxBroke: it could not be given namespaces of its own.
        """
        socket.send_fds(self._socket, [request], fds)
        pid = int(self._answer())
        if pid == 0:
            raise SandboxBroke(last_line(self._log))
        return pid

    def close(self) -> None:
        """Ends the zygote; workers are ended by their own handles."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Process id, for the judge's list of its own children."""
        return self._process.pid

    def _answer(self) -> bytes:
        try:
            data = self._socket.recv(64)
        except OSError as error:
            raise ZygoteDied(f"the worker process did not answer: {error}") from error
        if not data:
            raise ZygoteDied(last_line(self._log) or "the worker process ended without a word")
        return data


def last_line(log: Path) -> str:
    """What a process last said, for people."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def become_reaper() -> None:
    """Makes orphans among our descendants our own children, so that none outlives the judge."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def serve(socket_fd: str, judge_pid: str) -> None:
    """The zygote's main loop: receive a request with descriptors, fork, answer with the pid."""
    import torch
    import torch._dynamo

    # Imported here, once, so that no worker pays for it; neither runs a parallel region.

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=int(socket_fd))
    channel.send(b"ready")
    while True:
        request, fds, _, _ = socket.recv_fds(channel, _MAX_REQUEST, 8)
        if not request:
            return
        pid = _fork_adopted(request, list(fds), int(judge_pid))
        for fd in fds:
            os.close(fd)
        channel.send(str(pid).encode())


def _fork_adopted(request: bytes, fds: list[int], judge_pid: int) -> int:
    """Forks twice: the worker loses its parent and the judge, its subreaper, adopts it.

    Only a parent is told by the kernel that a stop of *all* threads is complete. The process in the
    middle is also the one that leaves this machine's namespaces: those of processes hold for
    children alone. Returns 0 where the kernel refused that.
    """
    asked = json.loads(request)
    cell = Cell(**asked["cell"]) if asked["cell"] is not None else None
    read_end, write_end = os.pipe()
    ended, alive = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(alive)
        if cell is not None and cell.flags:
            _enter_or_exit(cell.flags)
        worker = os.fork()
        if worker == 0:
            _become_worker(asked, cell, fds, judge_pid, ended)
        os.write(write_end, array.array("i", [worker]).tobytes())
        os._exit(0)
    os.close(write_end)
    answer = os.read(read_end, 4)
    os.waitpid(middle, 0)
    for fd in (read_end, ended, alive):
        os.close(fd)
    return array.array("i", answer)[0] if answer else 0


def _enter_or_exit(flags: int) -> None:
    try:
        enter_namespaces(flags)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def _become_worker(
    asked: dict[str, Any], cell: Cell | None, fds: list[int], judge_pid: int, ended: int
) -> NoReturn:
    try:
        os.setsid()
        os.read(ended, 1)  # the middle process has been waited for: the judge is the parent
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() not in (judge_pid, 0):  # 0: it is not in this namespace
            os._exit(0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        wake, reply, log, *memory = (fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in fds)
        targets = [(log, 1), (log, 2), (wake, 3), (reply, 4)]
        for source, target in (*targets, *((fd, 5 + at) for at, fd in enumerate(memory))):
            os.dup2(source, target)
        os.closerange(5 + len(memory), _MOST_FDS)  # whatever the zygote or its parent left open
        from kernelwright.sandbox.worker import run_worker

        memory_fds = [5 + at for at in range(len(memory))]
        run_worker(asked, cell, wake_fd=3, reply_fd=4, memory_fds=memory_fds)
        sys.stderr.flush()
    finally:
        os._exit(0)
