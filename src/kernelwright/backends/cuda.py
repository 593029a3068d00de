"""`cuda` Candidates: CUDA C++ behind a plain C ABI, compiled by nvcc for exactly one architecture.

It needs no device. torch's headers never enter: `load_inline` takes 75 s, this two.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.backends.artefact import Artefact, BuildFailure, KernelFacts, PythonArtefact
from kernelwright.backends.cached import build_once, compile_library
from kernelwright.backends.nvcc import FLAGS, Nvcc, find_nvcc, read_facts
from kernelwright.backends.toolchain import INCLUDE, find_toolchain
from kernelwright.core.candidate import Candidate

_TIMEOUT_S = 120.0


class CudaBackend:
    """Builds a shared object from the `.cu` files of a Candidate."""

    kind = "cuda"
    devices: tuple[str, ...] = ("cuda",)
    locked_up = True

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        nvcc = find_nvcc()
        library = cache / "cuda" / f"{_key(candidate, nvcc)}.so"
        found = build_once(library, lambda into: _compile(candidate, nvcc, into, cache))
        if isinstance(found, BuildFailure):
            return found
        return PythonArtefact(
            "kernelwright.backends.cuda_arms:shared_object",
            {"library": str(library), "symbol": candidate.entry},
            reads=(library,),
            kernels=tuple(KernelFacts(**one) for one in found["kernels"]),
        )


def _key(candidate: Candidate, nvcc: Nvcc) -> str:
    headers = [path.read_text() for path in sorted(INCLUDE.glob("*.h"))]
    host = find_toolchain().identity
    parts = [candidate.id, nvcc.version, *nvcc.target, host, *headers, *FLAGS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _compile(
    candidate: Candidate, nvcc: Nvcc, library: Path, cache: Path
) -> BuildFailure | dict[str, Any]:
    made = compile_library(
        candidate,
        (".cu",),
        [nvcc.path, *FLAGS, *nvcc.target],
        into=library,
        read=[nvcc.home, *find_toolchain().folders],
        cache=cache,
        timeout_s=_TIMEOUT_S,
    )
    if isinstance(made, BuildFailure):
        return made
    return {"kernels": [asdict(one) for one in read_facts(made.log, made.ptx)]}
