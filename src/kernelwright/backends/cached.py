"""Builds once per content: what was made, or why it could not be, is found again by its key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.backends.artefact import BuildFailure

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
