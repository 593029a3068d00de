"""What every verb prints: one JSON object last on stdout, or text for people."""

from __future__ import annotations

import json
import sys
import warnings
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit status of the program."""

    DONE = 0
    NO_WIN = 1
    USER_ERROR = 2
    INCONCLUSIVE = 3
    BUG = 70
    INTERRUPTED = 130


def print_json(value: Any) -> None:
    """One object on one line, the last thing on stdout."""
    print(json.dumps(value), flush=True)


def say(text: str, *, as_json: bool = False) -> None:
    """A line for people: on stdout, or on stderr where stdout belongs to a program."""
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"kernelwright: {' '.join(text.split())}", file=sys.stderr, flush=True)


def show_warnings_as_lines() -> None:
    """A warning is one line on stderr, without the source line that Python adds."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"warning: {message}")

    warnings.showwarning = show
