"""kernelwright: verified faster kernels for PyTorch.

From Python: `optimize`, `judge`, `patch`, `Run`, `Task`, `Candidate`, `SourceFile`, `Verdict`,
`KernelwrightError`. To read the code, begin with `core` for the nouns, then one room:
`tasks` -> `propose` -> `backends` -> `judge` -> `runs`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.api import Run, Task, judge, optimize, patch
    from kernelwright.core import Candidate, KernelwrightError, SourceFile, Verdict

__version__ = "0.1.0"
__all__ = [
    "Candidate",
    "KernelwrightError",
    "Run",
    "SourceFile",
    "Task",
    "Verdict",
    "judge",
    "optimize",
    "patch",
]


_ROOMS = ("judge", "optimize")
_RECORDS = ("Candidate", "KernelwrightError", "SourceFile", "Verdict")


class _CallableRoom(ModuleType):
    """A room that is also the function of its name: `kernelwright.judge(...)`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        api = importlib.import_module("kernelwright.api")
        return getattr(api, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """This package: the import system sets each room as an attribute of it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ROOMS and isinstance(value, ModuleType):
            value.__class__ = _CallableRoom
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Imports what is asked for: torch costs seconds, and workers need none of this."""
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "core" if name in _RECORDS else "api"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
