"""`cpp` Candidates: plain C ABI, compiled by g++ in a bounded process, cached with their failures.

torch's headers never enter: `torch/extension.h` alone costs 36 CPU-seconds, this 0.3.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from kernelwright.backends.artefact import Artefact, BuildFailure, NativeArtefact
from kernelwright.backends.toolchain import FLAGS, INCLUDE, LINK_FLAGS, Toolchain, find_toolchain
from kernelwright.core.candidate import Candidate
from kernelwright.sandbox import probe_jail, run_compiler

_TIMEOUT_S = 60.0


class CppBackend:
    """Builds a shared object from the `.cpp` files of a Candidate."""

    kind = "cpp"
    locked_up = True

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        toolchain = find_toolchain()
        key = _key(candidate, toolchain)
        folder = cache / "cpp"
        folder.mkdir(parents=True, exist_ok=True)
        library, record = folder / f"{key}.so", folder / f"{key}.json"
        if not record.exists():
            failure = _compile(candidate, toolchain, library)
            if failure is not None and failure.reason.startswith("the compiler took"):
                return failure  # a time-out says as much about the machine: not remembered
            _remember(record, failure)
        answer = json.loads(record.read_text())
        if answer["ok"]:
            return NativeArtefact(library, candidate.entry)
        return BuildFailure(answer["reason"], answer["log"])


def _key(candidate: Candidate, toolchain: Toolchain) -> str:
    header = (INCLUDE / "kernelwright.h").read_text()
    parts = [candidate.id, toolchain.identity, header, *FLAGS, *LINK_FLAGS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _remember(record: Path, failure: BuildFailure | None) -> None:
    answer = {"ok": failure is None, "reason": "", "log": ""}
    if failure is not None:
        answer |= {"reason": failure.reason, "log": failure.log}
    partial = record.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(answer))
    partial.rename(record)


def _compile(candidate: Candidate, toolchain: Toolchain, library: Path) -> BuildFailure | None:
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
            cache=library.parents[1],
            jail=probe_jail(),
            timeout_s=_TIMEOUT_S,
        )
        if status is None:
            return BuildFailure(f"the compiler took more than {_TIMEOUT_S:g} s", log)
        if status != 0 or not (folder / "out.so").exists():
            return BuildFailure(_first_error(log, status), log)
        partial = library.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes((folder / "out.so").read_bytes())
        partial.rename(library)
    return None


def _first_error(log: str, status: int) -> str:
    lines = [line for line in log.splitlines() if "error" in line or "undefined" in line]
    if lines:
        return lines[0].strip()[:300]
    tail = log.strip().splitlines()
    return tail[-1][:300] if tail else f"the compiler ended with status {status}"
