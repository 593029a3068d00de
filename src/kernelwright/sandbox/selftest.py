"""Whether the walls of a jail stand: a kernel that tries to break out, run like any other."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox.arena import Arena
from kernelwright.sandbox.jail import Jail, SandboxTier
from kernelwright.sandbox.limits import default_limits
from kernelwright.sandbox.process import Failure, Worker
from kernelwright.sandbox.programs import find_c_compiler
from kernelwright.sandbox.spawn import Nursery
from kernelwright.sandbox.wire import TensorLayout

_SOURCE = Path(__file__).with_name("forbidden.c")
_ROOM, _WIDTH = 96, 48
_SUCCEEDED = 2
WorkerKind = Literal["native", "python"]
_PERMITTED: dict[WorkerKind, frozenset[str]] = {
    "native": frozenset(),
    "python": frozenset({"start_process", "start_process_clone3", "run_program"}),
}


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a worker could do in a jail."""

    tier: SandboxTier
    attempted: int
    succeeded: tuple[str, ...]
    """Names of the forbidden acts that were not denied; none in a jail that holds."""


def run_self_test(jail: Jail, worker: WorkerKind = "native") -> SelfTest:
    """Tries every forbidden act inside a worker in that jail.

    Args:
        jail: the walls.
        worker: `python` workers may start programs, since submissions compile themselves: for
            them that is no forbidden act.

    Raises:
        CompilerMissing: there is no C compiler to build the kernel with.
        SandboxBroke: the worker could not be locked up, or died of the attempt.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-selftest-") as name:
        folder = Path(name)
        victim = folder / "file"
        victim.write_text("not for you")
        path = np.frombuffer(str(victim).encode() + b"\0", dtype=np.uint8)
        arena = Arena([_layout("int64", 8, 1), _layout("uint8", path.nbytes, path.size)])
        arena.write(0, np.array([os.getpid()], dtype=np.int64).view(np.uint8))
        arena.write(1, path)
        found = np.zeros(_ROOM * _WIDTH, dtype=np.uint8)
        try:
            with Nursery(folder, jail=jail) as nursery:
                _act(_spawn(nursery, worker, _build(folder), arena), found)
        finally:
            arena.close()
    rows = [bytes(row) for row in found.reshape(_ROOM, _WIDTH) if row[0]]
    tried = {row[1:].split(b"\0")[0].decode(): row[0] == _SUCCEEDED for row in rows}
    forbidden = {name: done for name, done in tried.items() if name not in _PERMITTED[worker]}
    done = tuple(name for name, succeeded in forbidden.items() if succeeded)
    return SelfTest(jail.tier, len(forbidden), done)


def _spawn(nursery: Nursery, kind: WorkerKind, library: Path, arena: Arena) -> Worker | Failure:
    output = TensorLayout(0, _ROOM * _WIDTH, "uint8", (_ROOM, _WIDTH), (_WIDTH, 1))
    limits = default_limits()
    if kind == "native":
        return nursery.spawn_native(
            library, "kernel", arena=arena, outputs=(output,), limits=limits
        )
    config = {"library": str(library), "shape": output.shape}
    return nursery.spawn_python(
        "kernelwright.sandbox.acts:try_acts",
        config,
        arena=arena,
        outputs=(output,),
        limits=limits,
        jailed=[library],
    )


def _act(worker: Worker | Failure, found: np.ndarray) -> None:
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
