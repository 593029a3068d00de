"""What every verb prints: one JSON object last on stdout, or text for people."""

from __future__ import annotations

import json
import sys
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


def print_json(value: Any) -> None:
    """One object on one line, the last thing on stdout."""
    print(json.dumps(value), flush=True)


def say(text: str, *, as_json: bool) -> None:
    """A line for people: on stdout, or on stderr where stdout belongs to a program."""
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


def ratio(interval: Interval) -> str:
    """A speed-up with its bounds, as everywhere in the output."""
    return f"{interval.mid:.2f}x [{interval.low:.2f}, {interval.high:.2f}]"


def summarise(verdict: Verdict) -> str:
    """One line that says what the judge found."""
    match verdict.outcome:
        case Rejected(stage=stage, reason=reason):
            return f"rejected ({stage}): {reason}"
        case Inconclusive(reason=reason):
            return f"inconclusive: {reason}"
        case Accepted(timing=NotTimed()):
            return "builds and loads"
        case Accepted(timing=Measured() as timing):
            mark = "win" if verdict.win else "right"
            return f"{mark}  {ratio(timing.interval)} vs {timing.baseline}"
        case Accepted(timing=Unresolved() as timing):
            return (
                f"right  {ratio(timing.interval)} vs {timing.baseline}, unresolved: this machine "
                f"tells {100 * timing.resolution:.1f} % apart"
            )
    raise AssertionError("every outcome is spelled out above")
