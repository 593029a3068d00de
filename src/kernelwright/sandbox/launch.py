"""Runs a compiler on hostile text: bounded, and where the machine can do it, behind walls.

What a compiler reads ends up in what it makes: `.incbin` of a private file would carry it into a
kernel. So it sees the system, its own headers and the Candidate's sources, and writes beside them.
"""

from __future__ import annotations

import logging
import os
import resource
import select
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox.jail import COMPILER_NAMESPACES, Jail
from kernelwright.sandbox.orphans import adopt, disown, kill_orphans
from kernelwright.sandbox.programs import build_launcher, spawn_with_descriptors
from kernelwright.sandbox.seccomp import working_filter

_LOG = logging.getLogger(__name__)
_BROKE = 97  # launch.c
_LOG_BYTES = 1 << 16
_BOUNDS = {resource.RLIMIT_AS: 4 << 30, resource.RLIMIT_FSIZE: 64 << 20, resource.RLIMIT_CORE: 0}


def run_compiler(
    command: Sequence[str],
    folder: Path,
    *,
    read: Sequence[Path],
    cache: Path,
    jail: Jail,
    timeout_s: float,
) -> tuple[int | None, str]:
    """Runs a program that reads hostile text.

    Args:
        command: an absolute path and arguments.
        folder: where it runs and may write.
        read: what it may read beside the system and `folder`.
        cache: of our own programs.
        jail: the walls.
        timeout_s: then it is ended, with all that it started.

    Returns:
        Exit status (None: it took too long) and the head of what it printed.

    Raises:
        CompilerMissing: there is no C compiler for the launcher.
        SandboxBroke: a wall could not be put up; nothing was run.
    """
    _LOG.debug("in %s: %s", folder, shlex.join(command))
    program = working_filter() if jail.seccomp else b""
    flags = COMPILER_NAMESPACES if jail.namespaces else 0
    head = [str(build_launcher(cache)), str(flags), str(int(jail.landlock)), str(len(program))]
    head.append(str(folder))
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TMPDIR": str(folder)}
    log = folder / ".log"
    rules = jail.file_rules(read=read, write=[folder, os.devnull])
    pid = _start([*head, *command], env, log, rules, program)
    status = _wait(pid, timeout_s)
    text = _head_of(log)
    if status == _BROKE:
        raise SandboxBroke(text)
    return status, text


def _start(argv: list[str], env: Mapping[str, str], log: Path, rules: int, program: bytes) -> int:
    """The filter fits into a pipe, so it is written before there is a reader."""
    read_end, write_end = os.pipe()
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(write_end, program)
        pid = spawn_with_descriptors(argv, dict(env), [rules, read_end], log_fd)
    finally:
        for fd in (read_end, write_end, log_fd, rules):
            os.close(fd)
    adopt(pid)
    for name, bound in _BOUNDS.items():  # at once: whatever it starts inherits them
        resource.prlimit(pid, name, (bound, bound))
    return pid


def _wait(pid: int, timeout_s: float) -> int | None:
    pidfd = os.pidfd_open(pid)
    try:
        ended = bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)
        os.killpg(pid, signal.SIGKILL)  # it leads a session; what it started may outlive it
        _, status = os.waitpid(pid, 0)
        disown(pid)
        kill_orphans()
    return os.waitstatus_to_exitcode(status) if ended else None


def _head_of(log: Path) -> str:
    with log.open("rb") as file:
        return file.read(_LOG_BYTES).decode(errors="replace")
