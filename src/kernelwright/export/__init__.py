"""A winner leaves the project: files that run without it.

In: a Run with a win. Out: one Python file, one wheel or one hub folder that holds the reference,
the kernel and its Verdict, falls back to the reference where the kernel was not judged, and tests
itself; or a live model with the kernel in it. `alike`, `site`, `runtime`, `live`, `selftest` and
one of `native` and `traced` go into each of them word for word.
"""

from kernelwright.export.hub import export_hub
from kernelwright.export.patching import NothingToPatch, patch
from kernelwright.export.runtime import KernelNotUsed
from kernelwright.export.single_file import export_file
from kernelwright.export.wheel import export_wheel
from kernelwright.export.winner import ExportImpossible

__all__ = [
    "ExportImpossible",
    "KernelNotUsed",
    "NothingToPatch",
    "export_file",
    "export_hub",
    "export_wheel",
    "patch",
]
