"""The backends by kind of Candidate."""

from __future__ import annotations

from kernelwright.backends.artefact import Backend
from kernelwright.backends.cpp import CppBackend
from kernelwright.backends.graph import GraphBackend
from kernelwright.backends.python import PythonBackend

BACKENDS: dict[str, Backend] = {
    backend.kind: backend for backend in (CppBackend(), GraphBackend(), PythonBackend())
}
