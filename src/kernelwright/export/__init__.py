"""A winner leaves the project: files that run without it.

In: a Run with a win. Out: one Python file that holds the reference, the kernel's source and its
Verdict, compiles at first use, falls back to the reference where the kernel was not judged, and
tests itself. `runtime` is the part that goes into each of them word for word.
"""

from kernelwright.export.single_file import ExportImpossible, export_file

__all__ = ["ExportImpossible", "export_file"]
