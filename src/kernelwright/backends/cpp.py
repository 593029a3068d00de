"""`cpp` Candidates: plain C ABI, compiled by g++ in a bounded process, cached with their failures.

torch's headers never enter: `torch/extension.h` alone costs 36 CPU-seconds, this 0.3.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kernelwright.backends.artefact import Artefact, BuildFailure, NativeArtefact
from kernelwright.backends.cached import build_once, compile_library
from kernelwright.backends.toolchain import FLAGS, INCLUDE, LINK_FLAGS, Toolchain, find_toolchain
from kernelwright.core.candidate import Candidate

_TIMEOUT_S = 60.0


class CppBackend:
    """Builds a shared object from the `.cpp` files of a Candidate."""

    kind = "cpp"
    devices: tuple[str, ...] = ("cpu",)
    locked_up = True

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        toolchain = find_toolchain()
        library = cache / "cpp" / f"{_key(candidate, toolchain)}.so"
        found = build_once(library, lambda into: _compile(candidate, toolchain, into, cache))
        if isinstance(found, BuildFailure):
            return found
        return NativeArtefact(library, candidate.entry)


def _key(candidate: Candidate, toolchain: Toolchain) -> str:
    header = (INCLUDE / "kernelwright.h").read_text()
    parts = [candidate.id, toolchain.identity, header, *FLAGS, *LINK_FLAGS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _compile(
    candidate: Candidate, toolchain: Toolchain, library: Path, cache: Path
) -> BuildFailure | dict[str, Any]:
    made = compile_library(
        candidate,
        (".cpp", ".cc"),
        [toolchain.path, *FLAGS],
        links=LINK_FLAGS,
        into=library,
        read=toolchain.folders,
        cache=cache,
        timeout_s=_TIMEOUT_S,
    )
    return made if isinstance(made, BuildFailure) else {}
