"""The judge's handle on one worker: wake it, stop it, read its memory, end it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelwright.sandbox.limits import Limits
from kernelwright.sandbox.look import CodeMap, ThreadAt, code_map, threads_at
from kernelwright.sandbox.orphans import (
    adopt,
    children_of,
    disown,
    kill_and_reap,
    kill_orphans,
    runs,
    threads_of,
)
from kernelwright.sandbox.wire import (
    BORN_BYTES,
    READY_SEQ,
    Reply,
    WireError,
    pack_wake,
    reply_bytes,
    unpack_born,
    unpack_reply,
)

FailureKind = Literal["crashed", "hung", "raised", "load_failed", "out_of_memory", "garbled"]
_libc = ctypes.CDLL(None, use_errno=True)
_IOV_MAX = 1024  # limits.h
_PAGE = 4096


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker gave no usable reply. `detail` may quote its log: for people, never parsed."""

    kind: FailureKind
    detail: str


@dataclass(frozen=True, slots=True)
class Call:
    """One timed call. The clocks are the judge's; the worker reports none.

    `cpu_ns` and `late_cpu_ns` are the worker's CPU time, all threads, read from outside: inside the
    window, and between its reply and the moment the kernel says all its threads stand still.
    """

    seq: int
    wall_ns: int
    cpu_ns: int
    late_cpu_ns: int
    freeze_ns: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Watch:
    """Stops a worker in the middle of a call, once after each delay, and looks at it."""

    delays_s: tuple[float, ...]
    see: Callable[[Worker], None]


class Worker:
    """A stopped process that runs only inside `call`. Close it, or use it as a context manager."""

    def __init__(self, pid: int, wake_fd: int, reply_fd: int, *, log: Path, limits: Limits) -> None:
        adopt(pid)
        self.pid = pid
        self.log = log
        self._wake_fd, self._reply_fd = wake_fd, reply_fd
        self._limits = limits
        self._pidfd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(reply_fd, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)
        self._clock = (~pid << 3) | 2  # CLOCKFD of a process's CPU clock, as clock_getcpuclockid
        self._seq = 0
        self._n_outputs = 0
        self._alive = True
        self.freezes = True
        """Off, it runs between calls as well: for a study of what that would let pass."""
        self.arena_address = 0
        """Where the worker's trusted code mapped the inputs, before any Candidate was loaded."""

    def lock_up(self, setup: bytes, timeout_s: float) -> bool:
        """Sends a native runner its setup and waits until it has given up what it must.

        Its own code answers before anything of a Candidate is loaded. False: it did not, and is
        dead.
        """
        with contextlib.suppress(BrokenPipeError):
            while setup:
                setup = setup[os.write(self._wake_fd, setup) :]
        locked = read_word(self._reply_fd, timeout_s) == 0
        if not locked:
            self.kill()
        return locked

    def wait_ready(self, n_outputs: int) -> Reply | Failure:
        """Waits for the first message, then freezes the worker.

        The worker's own code sends it before or after it loaded the Candidate, so the message
        carries only the status and the address of its input mapping.
        """
        self._n_outputs = n_outputs
        reply = self._receive(READY_SEQ, self._limits.load_s)
        if isinstance(reply, Failure):
            self.kill()
            return reply
        if reply.status != 0:
            self._join(1.0)
            self.kill()
            return Failure("load_failed", self.log_tail())
        self._freeze()
        return reply

    def call(self, release: tuple[int, ...] = (), *, watch: Watch | None = None) -> Call | Failure:
        """Wakes the worker for one call and freezes it at its reply.

        Args:
            release: earlier calls whose outputs the worker may free now.
            watch: for a call whose time is not used.

        Returns:
            The call, or the failure; after a failure the worker is dead.
        """
        self._seq += 1
        message = pack_wake(self._seq, release)
        collecting = gc.isenabled()
        gc.disable()
        cpu_before = time.clock_gettime_ns(self._clock)
        started = time.perf_counter_ns()
        os.write(self._wake_fd, message)
        os.kill(self.pid, signal.SIGCONT)
        if watch is not None:
            self._watch(watch)
        reply = self._receive(self._seq, self._limits.call_s)
        ended = time.perf_counter_ns()
        if collecting:
            gc.enable()
        if isinstance(reply, Failure):
            self.kill()
            return reply
        cpu_reply = time.clock_gettime_ns(self._clock)
        if not self._freeze():
            return self._dead("crashed")
        frozen = time.perf_counter_ns()
        cpu_frozen = time.clock_gettime_ns(self._clock)
        if reply.status != 0:
            kind: FailureKind = "out_of_memory" if reply.status == 3 else "raised"
            detail = self.log_tail()
            self.kill()
            return Failure(kind, detail)
        return Call(
            self._seq,
            ended - started,
            cpu_reply - cpu_before,
            cpu_frozen - cpu_reply,
            frozen - ended,
            reply,
        )

    def read_memory(self, address: int, into: Any) -> bool:
        """Copies the frozen worker's memory at `address` into a contiguous uint8 array."""
        got, size = 0, into.nbytes
        while got < size:
            n = self._read([(address + got, size - got)], into.ctypes.data + got, size - got)
            if n <= 0:
                return False
            got += n
        return True

    def read_places(self, places: Sequence[tuple[int, int]]) -> bytes | None:
        """The frozen worker's bytes at each (address, length), joined; None if any is not mapped.

        One system call for many places: each alone would cost 25 us.
        """
        into = ctypes.create_string_buffer(sum(length for _, length in places))
        at, end = ctypes.addressof(into), ctypes.addressof(into) + len(into)
        for first in range(0, len(places), _IOV_MAX):
            n = self._read(places[first : first + _IOV_MAX], at, end - at)
            if n <= 0:
                return None
            at += n
        return into.raw if at == end else None

    def _read(self, places: Sequence[tuple[int, int]], to: int, size: int) -> int:
        local = _IoVec(to, size)
        remote = (_IoVec * len(places))(*places)
        n = _libc.process_vm_readv(self.pid, ctypes.byref(local), 1, remote, len(places), 0)
        return ctypes.c_ssize_t(n).value

    def cpu_ns(self) -> int:
        """CPU time the worker has used so far, all threads."""
        return time.clock_gettime_ns(self._clock) if self._alive else 0

    def threads_at(self) -> list[ThreadAt]:
        """Where the threads of the frozen worker stand."""
        return threads_at(self.pid)

    def code_map(self) -> CodeMap:
        """The code the worker has mapped."""
        return code_map(self.pid)

    def read_stack(self, sp: int, size: int) -> bytes:
        """Up to `size` bytes of the frozen worker from `sp` upwards, as far as pages are mapped."""
        ends = range(sp + _PAGE - sp % _PAGE, sp + size, _PAGE)
        starts = [sp, *ends]
        places = [(a, b - a) for a, b in zip(starts, [*ends, sp + size], strict=True)]
        into = ctypes.create_string_buffer(size)
        n = self._read(places, ctypes.addressof(into), size)
        return into.raw[: max(n, 0)]

    def minor_faults(self) -> int:
        """Pages this process had to be given so far; a warm heap needs none per call."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[7])

    def children(self) -> list[int]:
        """Processes the worker has started and that still run."""
        return [pid for task in threads_of(self.pid) for pid in children_of(task) if runs(pid)]

    def log_tail(self, limit: int = 400) -> str:
        """The last lines of what it printed, for a person to read."""
        with self.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 8 * limit))
            text = file.read().decode(errors="replace")
        printable = "".join(c if c.isprintable() else " " for c in text)
        return " ".join(printable.split())[-limit:]

    def kill(self) -> int:
        """Ends the worker and everything it started. Returns how many other processes that were."""
        if not self._alive:
            return 0
        started = len(self.children())
        self._alive = False
        for fd in (self._wake_fd, self._reply_fd):
            os.close(fd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        kill_and_reap(self.pid)
        os.close(self._pidfd)
        disown(self.pid)
        return max(started, kill_orphans())

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _receive(self, seq: int, timeout_s: float) -> Reply | Failure:
        expected = reply_bytes(self._n_outputs)
        deadline = time.monotonic() + timeout_s
        data = b""
        while len(data) < expected:
            left_ms = (deadline - time.monotonic()) * 1000
            events = dict(self._poll.poll(max(left_ms, 0)))
            if self._reply_fd in events:
                chunk = os.read(self._reply_fd, expected - len(data))
                if chunk:
                    data += chunk
                    continue
                return self._dead("crashed")
            if events:
                return self._dead("crashed")
            return self._dead("hung", f"no reply within {timeout_s:g} s")
        try:
            reply = unpack_reply(data)
        except WireError as error:
            return self._dead("garbled", str(error))
        if reply.seq != seq or len(reply.outputs) != self._n_outputs:
            return self._dead("garbled", f"a reply to call {reply.seq} came during call {seq}")
        return reply

    def _watch(self, watch: Watch) -> None:
        """Ends with the worker going on, or with its reply or its end to be received."""
        if not self.freezes:
            return
        for delay_s in watch.delays_s:
            time.sleep(delay_s)
            if self._poll.poll(0) or not self._freeze():
                return
            watch.see(self)
            os.kill(self.pid, signal.SIGCONT)

    def _freeze(self) -> bool:
        """Stops every thread; False if the process ended instead."""
        if not self.freezes:
            return True
        os.kill(self.pid, signal.SIGSTOP)
        state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is None or state.si_code != os.CLD_STOPPED:
            return False
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        return True

    def _join(self, timeout_s: float) -> None:
        select.select([self._pidfd], [], [], timeout_s)

    def _dead(self, kind: FailureKind, detail: str = "") -> Failure:
        self._join(0.0 if kind == "hung" else 1.0)
        how = _how_it_ended(self.pid) if kind == "crashed" else ""
        text = " ".join(part for part in (detail, how, self.log_tail()) if part)
        self.kill()
        return Failure(kind, text)


def read_word(fd: int, timeout_s: float) -> int | None:
    """One of the two words a native runner says before it loads a Candidate; None if it did not."""
    deadline, data = time.monotonic() + timeout_s, b""
    while len(data) < BORN_BYTES:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(fd, BORN_BYTES - len(data)) if ready else b""
        if not chunk:
            return None
        data += chunk
    return unpack_born(data)


def _how_it_ended(pid: int) -> str:
    try:
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return ""
    if state is None:
        return "it closed its channel"
    if state.si_code == os.CLD_EXITED:
        return f"it exited with status {state.si_status}"
    return f"it was ended by {signal.Signals(state.si_status).name}"
