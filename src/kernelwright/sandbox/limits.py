"""What a worker may use, and the environment it runs in."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

# glibc maps every block over 32 MiB afresh, so a large output costs a page fault per 4 KiB in each
# call (gelu on 33 MB: 24 ms instead of 9). Every arm keeps its heap instead, all alike.
_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}

# A worker sleeps between calls, so its threads are woken in each. Unpinned, the scheduler often
# starts two of them on one core (the same call took 3 or 8 ms); pinned and not spinning, every arm
# finds the same cores free, and no thread spins on after the reply.
_OPENMP = {"OMP_PROC_BIND": "true", "OMP_PLACES": "threads", "OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one worker; 0 means no bound."""

    threads: int
    memory_bytes: int
    """Address space beyond what the warm process already maps."""
    file_bytes: int = 1 << 20
    """Size of any file it writes, its log included, once it serves calls."""
    cpu_s: int = 600
    """Backstop only: the judge's own clock kills first."""
    reserving: bool = False
    """It reserves far more address space than it uses, as CUDA does: what it may write is bounded
    in its place."""
    load_s: float = 300.0
    call_s: float = 60.0


def usable_threads() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def default_limits() -> Limits:
    """Threads as the machine has cores, memory three quarters of what is installed."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Limits(threads=usable_threads(), memory_bytes=total * 3 // 4)


def worker_environment(cache: Path) -> dict[str, str]:
    """A small environment of our own: nothing of the user's leaks in, nothing preloads.

    `OMP_NUM_THREADS=1` is for the zygote: a process that ever ran an OpenMP region with more than
    one thread leaves children that hang at their first; each worker sets its own count after fork.
    """
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        **_OPENMP,
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
    for name in ("LD_LIBRARY_PATH", "CXX", "CC", "TMPDIR"):
        if name in os.environ:
            env[name] = os.environ[name]
    return env | _MALLOC


def mapped_bytes() -> int:
    """Address space this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit_memory(limits: Limits) -> None:
    """Bounds the memory of the calling process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not limits.memory_bytes:
        return
    kind = resource.RLIMIT_DATA if limits.reserving else resource.RLIMIT_AS
    bound = mapped_bytes() + limits.memory_bytes
    resource.setrlimit(kind, (bound, bound))


def lock_down(limits: Limits) -> None:
    """The last step before calls are served: no large file, bounded CPU time."""
    if limits.file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
    if limits.cpu_s:
        used_s = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used_s + limits.cpu_s, used_s + limits.cpu_s))


def python_command(*argv: str) -> list[str]:
    """An isolated interpreter (no cwd, no user site) that can import this very package.

    What the user's PYTHONPATH adds comes last: a task's imports are found, and nothing is shadowed.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    extra = [str(Path(name).absolute()) for name in named if name]
    own = str(Path(__file__).parents[2])
    # Where it is not on the path already it goes first: another copy of the package may be.
    code = (
        "import os, sys; own, extra = sys.argv.pop(1), sys.argv.pop(1).split(os.pathsep); "
        "sys.path[:0] = [own] if own not in sys.path else []; "
        "sys.path.extend(filter(None, extra)); "
        "from kernelwright.sandbox.zygote import serve; serve(*sys.argv[1:])"
    )
    return [sys.executable, "-I", "-c", code, own, os.pathsep.join(extra), *argv]
