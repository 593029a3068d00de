"""Runs code that is not trusted, in processes that are.

In: a module-level function (Python arms) or a shared object (native), the layout of its inputs and
outputs, and limits. Out: a `Worker` that stands still except inside one timed `call`, whose memory
the judge reads while it is frozen; or a `Failure`. This room knows nothing of kernels.
"""

from kernelwright.sandbox.arena import Arena
from kernelwright.sandbox.device_memory import DeviceArena, DeviceMemory
from kernelwright.sandbox.jail import NO_JAIL, Jail, SandboxTier, probe_jail
from kernelwright.sandbox.launch import run_compiler
from kernelwright.sandbox.limits import Limits, default_limits, usable_threads
from kernelwright.sandbox.look import CodeMap
from kernelwright.sandbox.process import Call, Failure, Watch, Worker
from kernelwright.sandbox.programs import build_runner
from kernelwright.sandbox.selftest import SelfTest, WorkerKind, run_self_test
from kernelwright.sandbox.spawn import Nursery
from kernelwright.sandbox.symbols import symbols_of
from kernelwright.sandbox.wire import DTYPES, ITEMSIZE, Reply, TensorLayout, WireError
from kernelwright.sandbox.zygote import ZygoteDied

__all__ = [
    "DTYPES",
    "ITEMSIZE",
    "NO_JAIL",
    "Arena",
    "Call",
    "CodeMap",
    "DeviceArena",
    "DeviceMemory",
    "Failure",
    "Jail",
    "Limits",
    "Nursery",
    "Reply",
    "SandboxTier",
    "SelfTest",
    "TensorLayout",
    "Watch",
    "WireError",
    "Worker",
    "WorkerKind",
    "ZygoteDied",
    "build_runner",
    "default_limits",
    "probe_jail",
    "run_compiler",
    "run_self_test",
    "symbols_of",
    "usable_threads",
]
