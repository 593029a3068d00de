"""`kernelwright explain`: what a Verdict says, gate by gate, and what would have passed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.cli.options import Json
from kernelwright.cli.output import Exit, milliseconds, print_json, ratio, say
from kernelwright.core.errors import KernelwrightError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.core.verdict import Against, Correctness, Measured, Unresolved, Verdict

_ADVICE = {
    "build": "Mend what the compiler names; the headers are those of kernelwright.h.",
    "load": "The shared object must define its entry and need no library beyond libm and OpenMP.",
    "verify": "Compare with the reference in float64 on inputs of that family and shape.",
    "audit": "It did something no kernel needs to do; outputs must be new and calls independent.",
    "measure": "Judge it again on a quiet machine.",
}
_SEEN_SHARE = 0.1


class VerdictNotFound(KernelwrightError):
    """The argument holds no Verdict."""

    def __init__(self, where: Path, what: str) -> None:
        super().__init__(
            f"{where}: {what}. Name a run folder, RUN/candidates/ID, or a file that "
            "kernelwright judge --json wrote."
        )


def explain(verdict: Path, *, json: Json = False) -> int:
    """Say which gates a candidate passed, how close it came, and what would have passed.

    Args:
        verdict: A run folder (its best verdict), RUN/candidates/ID (the last one on that
            candidate), or a file that holds the output of kernelwright judge --json.
    """
    found = find_verdict(verdict)
    lines = list(lines_of(found))
    if json:
        print_json(found.model_dump(mode="json") | {"win": found.win, "explanation": lines})
    else:
        say("\n".join(lines))
    return Exit.DONE


def find_verdict(path: Path) -> Verdict:
    """The Verdict that a run folder, a candidate folder in one, or a file holds."""
    from kernelwright.runs import open_run

    if path.is_file():
        return _read(path)
    if path.parent.name == "candidates":
        on_it = [v for v in open_run(path.parents[1]).verdicts() if v.candidate == path.name]
        if not on_it:
            raise VerdictNotFound(path, "its run holds no verdict on it")
        return on_it[-1]
    folder = open_run(path)
    verdicts = folder.verdicts()
    if not verdicts:
        raise VerdictNotFound(path, "nothing was judged in it yet")
    return folder.best() or verdicts[-1]


def _read(path: Path) -> Verdict:
    import json as json_module

    from pydantic import ValidationError

    from kernelwright.core.verdict import Verdict

    try:
        fields = json_module.loads(path.read_text().strip().splitlines()[-1])
        if isinstance(fields, dict):
            fields.pop("win", None)
        return Verdict.model_validate(fields)
    except (ValidationError, ValueError, IndexError):
        raise VerdictNotFound(path, "its last line is no verdict") from None


def lines_of(verdict: Verdict) -> Iterator[str]:
    """What a Verdict says, a line per fact."""
    from kernelwright.core.verdict import Accepted, Inconclusive, NotTimed, Rejected

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
        case Accepted(correctness=correctness, timing=timing):
            yield from _right(correctness)
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
    from kernelwright.core.verdict import WIN_THRESHOLD, Unresolved

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
