"""Builds once per content: what was made, or why it could not be, is found again by its key.

And the one way in which sources become a shared object: in a folder of their own, behind walls.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.backends.artefact import BuildFailure
from kernelwright.backends.toolchain import INCLUDE
from kernelwright.core.candidate import Candidate
from kernelwright.sandbox import probe_jail, run_compiler

TOOK_TOO_LONG = "the compiler took more than"


def build_once(
    made: Path, build: Callable[[Path], BuildFailure | dict[str, Any]]
) -> BuildFailure | dict[str, Any]:
    """The answer of an earlier build under this name, or of one now.

    Args:
        made: where the result lies; its record lies beside it, with the suffix `.built`.
        build: puts the result at the path it is given and says what is to be remembered of it.

    Returns:
        What `build` said.
    """
    record = made.with_suffix(".built")
    if record.exists():
        answer = json.loads(record.read_text())
        failed = answer["failure"]
        return answer["facts"] if failed is None else BuildFailure(**failed)
    made.parent.mkdir(parents=True, exist_ok=True)
    partial = made.with_suffix(f".{os.getpid()}.partial")
    found = build(partial)
    if isinstance(found, BuildFailure):
        if not found.reason.startswith(TOOK_TOO_LONG):  # says as much about the machine
            _remember(record, {"failure": asdict(found), "facts": None})
        return found
    partial.rename(made)
    _remember(record, {"failure": None, "facts": found})
    return found


class Printed(NamedTuple):
    """What a compiler said, and the PTX it kept, if any."""

    log: str
    ptx: str


def compile_library(
    candidate: Candidate,
    suffixes: tuple[str, ...],
    command: Sequence[str],
    *,
    links: Sequence[str] = (),
    into: Path,
    read: Sequence[Path],
    cache: Path,
    timeout_s: float,
) -> BuildFailure | Printed:
    """Compiles the Candidate's units into a shared object.

    Args:
        candidate: all its sources are there to be included.
        suffixes: of the units; the first is named where there is none.
        command: the compiler's path and options; our headers' folder and the units are added.
        links: options that come last.
        into: where the shared object goes.
        read: what the compiler may read beside the system and our headers.
        cache: of our own programs.
        timeout_s: then it is ended.
    """
    units = [source.name for source in candidate.sources if source.name.endswith(suffixes)]
    if not units:
        return BuildFailure(f"the candidate has no {suffixes[0]} file")
    with tempfile.TemporaryDirectory(prefix="kernelwright-build-") as name:
        folder = Path(name)
        for source in candidate.sources:
            (folder / source.name).write_text(source.text)
        status, log = run_compiler(
            [*command, "-I", str(INCLUDE), "-I", ".", *units, "-o", "out.so", *links],
            folder,
            read=[INCLUDE, *read],
            cache=cache,
            jail=probe_jail(),
            timeout_s=timeout_s,
        )
        if status is None:
            return BuildFailure(f"{TOOK_TOO_LONG} {timeout_s:g} s", log)
        if status != 0 or not (folder / "out.so").exists():
            return BuildFailure(first_error(log, status), log)
        into.write_bytes((folder / "out.so").read_bytes())
        ptx = "\n".join(path.read_text(errors="replace") for path in folder.glob("*.ptx"))
    return Printed(log, ptx)


def first_error(log: str, status: int) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line for line in log.splitlines() if "error" in line or "undefined" in line]
    if lines:
        return lines[0].strip()[:300]
    tail = log.strip().splitlines()
    return tail[-1][:300] if tail else f"the compiler ended with status {status}"


def _remember(record: Path, answer: dict[str, Any]) -> None:
    partial = record.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(answer))
    partial.rename(record)
