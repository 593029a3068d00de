"""`cpp` Candidates: plain C ABI, compiled by g++ in a bounded process, cached with their failures.

torch's headers never enter: `torch/extension.h` alone costs 36 CPU-seconds, this 0.3.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from kernelwright.backends.artefact import Artefact, BuildFailure, NativeArtefact
from kernelwright.backends.cached import TOOK_TOO_LONG, build_once, first_error
from kernelwright.backends.toolchain import FLAGS, INCLUDE, LINK_FLAGS, Toolchain, find_toolchain
from kernelwright.core.candidate import Candidate
from kernelwright.sandbox import probe_jail, run_compiler

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
    units = [source.name for source in candidate.sources if source.name.endswith((".cpp", ".cc"))]
    if not units:
        return BuildFailure("the candidate has no .cpp file")
    with tempfile.TemporaryDirectory(prefix="kernelwright-build-") as name:
        folder = Path(name)
        for source in candidate.sources:
            (folder / source.name).write_text(source.text)
        command = [toolchain.path, *FLAGS, "-I", str(INCLUDE), "-I", ".", *units]
        status, log = run_compiler(
            [*command, "-o", "out.so", *LINK_FLAGS],
            folder,
            read=[INCLUDE, *toolchain.folders],
            cache=cache,
            jail=probe_jail(),
            timeout_s=_TIMEOUT_S,
        )
        if status is None:
            return BuildFailure(f"{TOOK_TOO_LONG} {_TIMEOUT_S:g} s", log)
        if status != 0 or not (folder / "out.so").exists():
            return BuildFailure(first_error(log, status), log)
        library.write_bytes((folder / "out.so").read_bytes())
    return {}
