"""The backends by kind of Candidate."""

from __future__ import annotations

from kernelwright.backends.artefact import Backend
from kernelwright.backends.cpp import CppBackend
from kernelwright.backends.cuda import CudaBackend
from kernelwright.backends.graph import GraphBackend
from kernelwright.backends.python import PythonBackend
from kernelwright.backends.triton import TritonBackend

BACKENDS: dict[str, Backend] = {
    backend.kind: backend
    for backend in (CppBackend(), CudaBackend(), GraphBackend(), PythonBackend(), TritonBackend())
}
