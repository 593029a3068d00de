"""What every verb prints: one JSON object last on stdout, or text for people."""

from __future__ import annotations

import json
import math
import sys
import warnings
from enum import IntEnum
from typing import Any

from kernelwright.core.record import Interval
from kernelwright.core.verdict import (
    Accepted,
    Inconclusive,
    Measured,
    NotTimed,
    Rejected,
    Unresolved,
    Verdict,
)


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


def ratio(interval: Interval) -> str:
    """A speed-up with its bounds, as everywhere in the output."""
    return f"{interval.mid:.2f}x [{interval.low:.2f}, {interval.high:.2f}]"


def milliseconds(wall_ns: float) -> str:
    """Three significant digits: `12.3 ms`, `0.0123 ms`."""
    wall_ms = wall_ns / 1e6
    decimals = max(0, 2 - math.floor(math.log10(wall_ms))) if wall_ms > 0 else 0
    return f"{wall_ms:.{decimals}f} ms"


def summarise(verdict: Verdict) -> str:
    """One line that says what the judge found."""
    match verdict.outcome:
        case Rejected(stage=stage, reason=reason):
            return f"rejected ({stage}): {' '.join(reason.split())}"
        case Inconclusive(reason=reason):
            return f"inconclusive: {' '.join(reason.split())}"
        case Accepted(timing=NotTimed()):
            return "builds and loads"
        case Accepted(timing=Measured() as timing):
            mark = "win" if verdict.win else "right"
            return f"{mark}  {ratio(timing.interval)} vs {timing.baseline}"
        case Accepted(timing=Unresolved() as timing):
            resolution = f"resolution {100 * timing.resolution:.1f} %"
            return (
                f"right  {ratio(timing.interval)} vs {timing.baseline}, unresolved ({resolution})"
            )
    raise AssertionError("every outcome is spelled out above")
