"""Whether the walls of a jail stand: a kernel that tries to break out, run like any other."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox.arena import Arena
from kernelwright.sandbox.jail import Jail, SandboxTier
from kernelwright.sandbox.limits import default_limits
from kernelwright.sandbox.process import Failure
from kernelwright.sandbox.spawn import Nursery, find_c_compiler
from kernelwright.sandbox.wire import TensorLayout

_SOURCE = Path(__file__).with_name("forbidden.c")
_ROOM, _WIDTH = 96, 48
_SUCCEEDED = 2


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a native worker could do in a jail."""

    tier: SandboxTier
    attempted: int
    succeeded: tuple[str, ...]
    """Names of the forbidden acts that were not denied; none in a jail that holds."""


def run_self_test(jail: Jail) -> SelfTest:
    """Tries every forbidden act inside a native worker in that jail.

    Raises:
        CompilerMissing: there is no C compiler to build the kernel with.
        SandboxBroke: the worker could not be locked up, or died of the attempt.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-selftest-") as name:
        folder = Path(name)
        victim = folder / "file"
        victim.write_text("not for you")
        path = np.frombuffer(str(victim).encode() + b"\0", dtype=np.uint8)
        layouts = [_layout("int64", 8, 1), _layout("uint8", path.nbytes, path.size)]
        output = TensorLayout(0, _ROOM * _WIDTH, "uint8", (_ROOM, _WIDTH), (_WIDTH, 1))
        arena = Arena(layouts)
        arena.write(0, np.array([os.getpid()], dtype=np.int64).view(np.uint8))
        arena.write(1, path)
        found = np.zeros(_ROOM * _WIDTH, dtype=np.uint8)
        try:
            _run(jail, _build(folder), arena, output, found)
        finally:
            arena.close()
    rows = [bytes(row) for row in found.reshape(_ROOM, _WIDTH) if row[0]]
    done = [row[1:].split(b"\0")[0].decode() for row in rows if row[0] == _SUCCEEDED]
    return SelfTest(jail.tier, len(rows), tuple(done))


def _run(jail: Jail, library: Path, arena: Arena, output: TensorLayout, found: np.ndarray) -> None:
    with Nursery(library.parent, jail=jail) as nursery:
        worker = nursery.spawn_native(
            library, "kernel", arena=arena, outputs=(output,), limits=default_limits()
        )
        if isinstance(worker, Failure):
            raise SandboxBroke(f"the self-test did not load: {worker.detail}")
        with worker:
            call = worker.call()
            if isinstance(call, Failure):
                raise SandboxBroke(f"the self-test died: {call.detail}")
            if not worker.read_memory(call.reply.outputs[0].address, found):
                raise SandboxBroke("the self-test's answer cannot be read")


def _build(folder: Path) -> Path:
    library = folder / "forbidden.so"
    command = [find_c_compiler(), "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return library


def _layout(dtype: str, nbytes: int, size: int) -> TensorLayout:
    return TensorLayout(0, nbytes, dtype, (size,), (1,))
