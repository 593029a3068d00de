"""Starts workers: a fork of the zygote for Python arms, the native runner for shared objects."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox.arena import Arena
from kernelwright.sandbox.device_memory import DeviceArena, DeviceMemory
from kernelwright.sandbox.jail import Jail, probe_jail
from kernelwright.sandbox.limits import Limits, worker_environment
from kernelwright.sandbox.lockup import Cell
from kernelwright.sandbox.orphans import adopt, disown
from kernelwright.sandbox.process import Failure, Worker, read_word
from kernelwright.sandbox.programs import build_pool, build_runner, spawn_with_descriptors
from kernelwright.sandbox.seccomp import serving_filter, working_filter
from kernelwright.sandbox.wire import Reply, TensorLayout, pack_setup
from kernelwright.sandbox.zygote import Zygote, become_reaper

_LOG = logging.getLogger(__name__)
_START_S = 20.0


class Nursery:
    """Where workers come from: one zygote, one runner binary, one folder for logs and caches."""

    def __init__(self, cache: Path, *, jail: Jail | None = None) -> None:
        """`jail`: the walls around native workers; by default all that this machine can do."""
        self.cache = cache
        self.jail = probe_jail() if jail is None else jail
        self._logs = Path(tempfile.mkdtemp(prefix="kernelwright-"))
        self._zygote: Zygote | None = None
        self._ready = False
        self._runners: dict[bool, Path] = {}
        self._count = 0
        become_reaper()

    def start(self) -> None:
        """Begins importing torch in the background; `spawn_python` waits for it."""
        if self._zygote is None:
            self._zygote = Zygote(self.cache, self._logs / "zygote.log")
            adopt(self._zygote.pid)

    def spawn_python(
        self,
        arm: str,
        config: dict[str, Any],
        *,
        arena: Arena | DeviceArena,
        outputs: tuple[TensorLayout, ...],
        limits: Limits,
        jailed: Sequence[Path] | None = None,
        pool: DeviceMemory | None = None,
    ) -> Worker | Failure:
        """Forks a worker that serves `arm`, a "module:function" taking (config, tensors).

        Args:
            arm: our own code, which loads what `config` names.
            config: JSON.
            arena: the inputs.
            outputs: what each call returns.
            limits: of the process.
            jailed: the files that a Candidate's worker may read, beside what Python and compilers
                need; None for the user's own code, which runs in a plain process.
            pool: on a device, the memory that all its tensors but the inputs lie in.

        Returns:
            A frozen worker that has loaded its arm, or why it could not.

        Raises:
            SandboxBroke: it could not be locked up.
        """
        self.start()
        assert self._zygote is not None
        if not self._ready:
            self._zygote.wait_ready()
            self._ready = True
        request = {
            "arm": arm,
            "config": config,
            "setup": pack_setup(arena.slots, outputs, arena.nbytes).hex(),
            "limits": asdict(limits),
            "cell": None if jailed is None else asdict(self._cell(jailed, pool)),
            "pool": None if pool is None else self._pool_request(pool),
        }
        _LOG.debug("forked worker: %s", arm)
        pipes = _Pipes(self._next_log())
        fds = [pipes.wake_read, pipes.reply_write, pipes.log_fd, arena.fd]
        fds += [] if pool is None else [pool.fd]
        pid = self._zygote.fork(json.dumps(request).encode(), fds)
        worker = pipes.into_worker(pid, limits)
        if jailed is not None and not worker.lock_up(b"", _START_S):
            raise SandboxBroke(worker.log_tail())
        return _ready(worker, len(outputs))

    def _pool_request(self, pool: DeviceMemory) -> dict[str, object]:
        return {"nbytes": pool.nbytes, "allocator": str(build_pool(self.cache))}

    def _cell(self, read: Sequence[Path], pool: DeviceMemory | None) -> Cell:
        """What a Candidate writes is seen by its own workers alone, and goes with this object."""
        paths = tuple(str(path) for path in read)
        if pool is not None:
            paths = (*paths, str(build_pool(self.cache)))
        owner = hashlib.sha256("\0".join(paths).encode()).hexdigest()[:16]
        folder = self._logs / f"cell-{owner}"
        folder.mkdir(exist_ok=True)
        seccomp = working_filter().hex() if self.jail.seccomp else ""
        nodes = [] if pool is None else sorted(map(str, Path("/dev").glob("nvidia*")))
        jail = self.jail
        return Cell(jail.unshare_flags, jail.landlock, seccomp, paths, str(folder), tuple(nodes))

    def spawn_native(
        self,
        library: Path,
        symbol: str,
        *,
        arena: Arena,
        outputs: tuple[TensorLayout, ...],
        limits: Limits,
        fenced: bool = False,
    ) -> Worker | Failure:
        """Starts the native runner on a shared object. No Python runs in that process.

        Args:
            library: the shared object.
            symbol: its function.
            arena: the inputs.
            outputs: what each call returns.
            limits: of the process.
            fenced: every block ends at a page that may not be touched; for calls not timed.

        Raises:
            SandboxBroke: it could not be locked up.
        """
        pipes = _Pipes(self._next_log())
        argv = [str(self._native_runner(fenced=fenced)), str(library), symbol, str(limits.threads)]
        argv += [str(limits.memory_bytes), str(limits.file_bytes), str(limits.cpu_s)]
        argv += [str(os.getpid()), str(self.jail.unshare_flags), str(int(self.jail.landlock))]
        _LOG.debug("native worker: %s", shlex.join(argv))
        extra = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        rules = self.jail.file_rules(read=[library, *filter(None, extra)])
        try:
            fds = [pipes.wake_read, pipes.reply_write, arena.fd, rules]
            pid = spawn_with_descriptors(argv, worker_environment(self.cache), fds, pipes.log_fd)
        finally:
            os.close(rules)
        worker = pipes.into_worker(pid, limits, moves=self.jail.namespaces)
        seccomp = serving_filter() if self.jail.seccomp else b""
        setup = pack_setup(arena.slots, outputs, arena.nbytes, seccomp=seccomp)
        if not worker.lock_up(setup, _START_S):
            raise SandboxBroke(worker.log_tail())
        return _ready(worker, len(outputs))

    def close(self) -> None:
        """Ends the zygote and removes the logs."""
        if self._zygote is not None:
            self._zygote.close()
            disown(self._zygote.pid)
            self._zygote = None
        shutil.rmtree(self._logs, ignore_errors=True)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_log(self) -> Path:
        self._count += 1
        return self._logs / f"worker-{self._count}.log"

    def _native_runner(self, *, fenced: bool) -> Path:
        if fenced not in self._runners:
            self._runners[fenced] = build_runner(self.cache, fenced=fenced)
        return self._runners[fenced]


class _Pipes:
    """Both ends of the two pipes of one worker, and its log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.wake_read, self.wake_write = os.pipe()
        self.reply_read, self.reply_write = os.pipe()
        self.log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def into_worker(self, pid: int, limits: Limits, *, moves: bool = False) -> Worker:
        """`moves`: the process goes on in a child of its own, which it names as its first word."""
        for fd in (self.wake_read, self.reply_write, self.log_fd):
            os.close(fd)
        if moves:
            word = read_word(self.reply_read, _START_S)
            os.waitpid(pid, 0)
            if word is None:
                os.close(self.wake_write)
                os.close(self.reply_read)
                raise SandboxBroke(self.log.read_text(errors="replace").strip()[-300:])
            pid = word
        return Worker(pid, self.wake_write, self.reply_read, log=self.log, limits=limits)


def _ready(worker: Worker, n_outputs: int) -> Worker | Failure:
    try:
        reply = worker.wait_ready(n_outputs)
    except BaseException:  # Ctrl-C while it loads must not leave it behind
        worker.kill()
        raise
    if isinstance(reply, Reply):
        worker.arena_address = reply.outputs[0].address if reply.outputs else 0
        return worker
    return reply
