"""Turns a Candidate's sources into something a worker can load.

In: a `core.Candidate`. Out: an `Artefact` (a shared object for the native runner, or an arm for a
Python worker) or a `BuildFailure`, both content-addressed. Nothing of a Candidate runs in the
calling process; `arms.py` runs inside workers.
"""

from kernelwright.backends.artefact import (
    Artefact,
    Backend,
    BuildFailure,
    NativeArtefact,
    PythonArtefact,
)
from kernelwright.backends.cpp import CppBackend
from kernelwright.backends.graph import GraphBackend
from kernelwright.backends.python import PythonBackend
from kernelwright.backends.registry import BACKENDS
from kernelwright.backends.toolchain import Toolchain, find_toolchain

__all__ = [
    "BACKENDS",
    "Artefact",
    "Backend",
    "BuildFailure",
    "CppBackend",
    "GraphBackend",
    "NativeArtefact",
    "PythonArtefact",
    "PythonBackend",
    "Toolchain",
    "find_toolchain",
]
