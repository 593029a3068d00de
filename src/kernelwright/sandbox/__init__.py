"""Runs code that is not trusted, in processes that are.

In: a module-level function (Python arms) or a shared object (native), the layout of its inputs and
outputs, and limits. Out: a `Worker` that stands still except inside one timed `call`, whose memory
the judge reads while it is frozen; or a `Failure`. This room knows nothing of kernels.
"""

from kernelwright.sandbox.arena import Arena
from kernelwright.sandbox.limits import Limits, default_limits, usable_threads
from kernelwright.sandbox.process import Call, Failure, Worker
from kernelwright.sandbox.spawn import SANDBOX_TIER, Nursery, build_runner
from kernelwright.sandbox.wire import DTYPES, ITEMSIZE, Reply, TensorLayout, WireError
from kernelwright.sandbox.zygote import ZygoteDied

__all__ = [
    "DTYPES",
    "ITEMSIZE",
    "SANDBOX_TIER",
    "Arena",
    "Call",
    "Failure",
    "Limits",
    "Nursery",
    "Reply",
    "TensorLayout",
    "WireError",
    "Worker",
    "ZygoteDied",
    "build_runner",
    "default_limits",
    "usable_threads",
]
