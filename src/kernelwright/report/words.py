"""How a Verdict reads: one line, or a line per fact."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelwright.core.record import Interval
from kernelwright.core.verdict import (
    WIN_THRESHOLD,
    Accepted,
    Against,
    Correctness,
    Inconclusive,
    LibraryUse,
    Measured,
    NotTimed,
    Rejected,
    Unresolved,
    Verdict,
)

_ADVICE = {
    "build": "Mend what the compiler names; the headers are those of kernelwright.h.",
    "load": "The shared object must define its entry and need no library beyond libm and OpenMP.",
    "verify": "Compare with the reference in float64 on inputs of that family and shape.",
    "audit": "It did something no kernel needs to do; outputs must be new and calls independent.",
    "measure": "Judge it again on a quiet machine.",
}
_SEEN_SHARE = 0.1


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


def lines_of(verdict: Verdict) -> Iterator[str]:
    """What a Verdict says, a line per fact."""
    where = f"{verdict.provenance.machine}, torch {verdict.provenance.torch}"
    subject = f"{verdict.candidate_kind} {verdict.candidate}"
    yield f"{verdict.task}: {subject} at {verdict.tier} ({where})"
    match verdict.outcome:
        case Rejected(stage=stage, reason=reason):
            yield f"rejected by the gate {stage}: {reason}"
            yield f"to pass: {_ADVICE[stage]}"
        case Inconclusive(reason=reason):
            yield f"inconclusive, which is the machine's fault: {reason}"
            yield f"to pass: {_ADVICE['measure']}"
        case Accepted(timing=NotTimed()):
            yield "builds and loads; this tier runs no call"
        case Accepted(correctness=correctness, timing=timing, libraries=libraries):
            yield from _right(correctness)
            if libraries is not None:
                yield _called(libraries)
            assert not isinstance(timing, NotTimed)
            yield from _fast(timing)
            yield _conclusion(verdict, timing)
    yield from (f"note: {note}" for note in verdict.provenance.notes)


def _right(checks: Correctness) -> Iterator[str]:
    yield (
        f"right: {checks.calls} calls compared in full with float64, over {len(checks.shapes)} "
        f"shapes ({', '.join(checks.shapes)}), {checks.weight_sets} sets of weights and the "
        f"families {', '.join(checks.families) or 'none'}"
    )
    yield (
        f"  the largest error is {checks.error_over_budget:.2f} of its budget (1.00 fails), its "
        f"RMS {checks.error_over_reference:.3g} times the reference's own; oracle: {checks.oracle}"
    )
    if checks.unchecked_calls:
        unseen = (1 - _SEEN_SHARE) ** checks.calls
        yield (
            f"  {checks.unchecked_calls} more calls were not compared, secretly chosen: wrong "
            f"answers in {_SEEN_SHARE:.0%} of all calls stay unseen with a chance of {unseen:.2g}"
        )


def _called(use: LibraryUse) -> str:
    places = ", ".join(f"{one.share:.0%} {one.name}" for one in use.objects[:3])
    operators = ", ".join(f"{one.share:.0%} {one.name}" for one in use.operators[:4])
    return (
        f"code, by {use.looks} looks into its calls: {places}; "
        f"PyTorch operators: {operators or 'none'}"
    )


def _fast(timing: Measured | Unresolved) -> Iterator[str]:
    yield f"times, in adjacent pairs; this machine tells apart {timing.resolution:.1%}"
    for one in timing.against:
        yield f"  {_against(one)}"
    if timing.roofline_share:
        yield f"  {timing.roofline_share:.0%} of the roofline"


def _against(one: Against) -> str:
    return (
        f"{ratio(one.speedup)} over {one.baseline}: {milliseconds(one.candidate_ns.mid)} against "
        f"{milliseconds(one.baseline_ns.mid)}, {one.pairs} pairs, p {one.p_faster:.2g} that it is "
        "5 % faster by chance"
    )


def _conclusion(verdict: Verdict, timing: Measured | Unresolved) -> str:
    if verdict.win:
        return "a win: the whole interval is above 1.05 against the fastest baseline"
    if isinstance(timing, Unresolved):
        return (
            f"no win: the difference to {timing.baseline} is below what this machine tells apart. "
            f"To pass: an interval above {WIN_THRESHOLD}, by a quieter machine or a faster kernel"
        )
    return (
        f"no win: the interval begins at {timing.interval.low:.2f}. To pass: all of it above "
        f"{WIN_THRESHOLD}, with a sign test at 1 %"
    )
