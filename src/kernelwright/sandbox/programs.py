"""Our own small C programs: how they are built, and how a program is started with descriptors."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from kernelwright.core.errors import CompilerMissing

_HERE = Path(__file__).parent
_FIRST_FD = 3


def find_c_compiler() -> str:
    """`$CC` or gcc, as a path. Raises CompilerMissing."""
    name = os.environ.get("CC", "gcc")
    path = shutil.which(name)
    if path is None:
        raise CompilerMissing(name, "gcc")
    return path


def build_runner(cache: Path, *, fenced: bool = False) -> Path:
    """The native worker, or the one whose buffers end at a fence. Raises CompilerMissing."""
    if fenced:
        options = ("-DFENCED", "-rdynamic", "-fno-builtin")
        return _build(cache, "runner", ("runner.c", "fence.c"), options)
    return _build(cache, "runner", ("runner.c",), ())


def build_launcher(cache: Path) -> Path:
    """The program that starts a compiler behind walls. Raises CompilerMissing."""
    return _build(cache, "launch", ("launch.c",), ())


def build_pool(cache: Path) -> Path:
    """The allocator of workers on a device, a shared object. Raises CompilerMissing."""
    return _build(cache, "pool", ("pool.c",), ("-shared", "-fPIC"))


def _build(cache: Path, name: str, files: tuple[str, ...], options: tuple[str, ...]) -> Path:
    """Compiles once per source and returns the program's path."""
    sources = [_HERE / file for file in files]
    compiler = find_c_compiler()
    texts = [source.read_bytes() for source in sources]
    digest = hashlib.sha256(b"".join([*texts, *map(str.encode, options)])).hexdigest()[:16]
    program = cache / f"{name}-{digest}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = cache / f".{name}-{digest}.{os.getpid()}"
        subprocess.run(
            [compiler, "-O2", *options, "-o", str(partial), *map(str, sources), "-ldl"], check=True
        )
        partial.rename(program)
    return program


def spawn_with_descriptors(
    argv: list[str], env: dict[str, str], fds: list[int], log_fd: int
) -> int:
    """Starts `argv` in a session of its own with `fds` from 3 on, and nothing else inherited."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (log_fd, *fds)]
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    targets = [(null, 0), (high[0], 1), (high[0], 2)]
    targets += [(fd, at) for at, fd in enumerate(high[1:], _FIRST_FD)]
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in targets],
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGPIPE],
        )
    finally:
        for fd in (null, *high):
            os.close(fd)
