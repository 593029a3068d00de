"""Turns a Candidate's sources into something a worker can load.

In: a `core.Candidate`. Out: an `Artefact` (a shared object for the native runner, or an arm for a
Python worker) or a `BuildFailure`, both content-addressed. Nothing of a Candidate runs in the
calling process; `arms.py` runs inside workers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME = {
    "kernelwright.backends.artefact": (
        "Artefact",
        "Backend",
        "BuildFailure",
        "NativeArtefact",
        "PythonArtefact",
    ),
    "kernelwright.backends.cpp": ("CppBackend",),
    "kernelwright.backends.graph": ("GraphBackend",),
    "kernelwright.backends.python": ("PythonBackend",),
    "kernelwright.backends.registry": ("BACKENDS",),
    "kernelwright.backends.toolchain": ("Toolchain", "find_toolchain"),
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: workers need this package, and run where pydantic is absent."""
    for home, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
