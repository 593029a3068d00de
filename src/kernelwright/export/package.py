"""A winner as an importable package with its kernel built: what a wheel and a hub folder hold."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelwright.backends.artefact import BuildFailure, NativeArtefact
from kernelwright.backends.cpp import CppBackend
from kernelwright.backends.toolchain import find_toolchain
from kernelwright.core.candidate import Candidate
from kernelwright.export.gate import require_sound_operator
from kernelwright.export.processor import needed_features
from kernelwright.export.text import render
from kernelwright.export.winner import ExportImpossible, Winner

_LIBRARY = "kernel.so"
_MAIN = '''"""Tests the kernel on this machine."""

from . import main

raise SystemExit(main())
'''


@dataclass(frozen=True, slots=True)
class Package:
    """The files of one package, by name."""

    files: dict[str, bytes]
    native: bool
    """Whether it holds a library that was built for processors like this one."""

    def require_sound(self) -> None:
        """Raises ExportImpossible unless torch's checks of its operator pass."""
        beside = {_LIBRARY: self.files[_LIBRARY]} if self.native else {}
        require_sound_operator(self.files["__init__.py"].decode(), beside)


def build_package(winner: Winner) -> Package:
    """Builds the kernel and writes the module around it.

    Raises:
        CompilerMissing: there is no compiler here.
        ExportImpossible: the kernel does not build here, or is of a kind that does not fit.
    """
    native = winner.candidate.kind == "cpp"
    built, needs = _built(winner.candidate) if native else ({}, ())
    text = render(winner, library=_LIBRARY if built else "", needs=needs)
    verdict = winner.verdict.model_dump_json(indent=2) + "\n"
    files = {"__init__.py": text.encode(), "__main__.py": _MAIN.encode()}
    return Package({**built, **files, "verdict.json": verdict.encode()}, native)


def package_name(winner: Winner) -> str:
    """Its name: kernelwright, the Task, the Candidate."""
    task = re.sub(r"[^a-z0-9]+", "_", winner.verdict.task.lower()).strip("_") or "task"
    return f"kernelwright_{task}_{winner.candidate.id}"


def _built(candidate: Candidate) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The library, by its name, and the features it needs."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-export-") as cache:
        match CppBackend().build(candidate, Path(cache)):
            case NativeArtefact(library=library):
                return {_LIBRARY: library.read_bytes()}, needed_features(find_toolchain())
            case BuildFailure(reason=reason):
                raise ExportImpossible(
                    candidate.id, f"it does not build here: {reason}", "Judge it here."
                )
    raise AssertionError("a cpp Candidate builds a library or fails")
