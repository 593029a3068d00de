"""How `optimize` states its result: an object for programs, a few lines for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from kernelwright.report.words import milliseconds, ratio

if TYPE_CHECKING:
    from kernelwright.core.ground import Ground
    from kernelwright.core.verdict import Verdict
    from kernelwright.optimize import Answer
    from kernelwright.runs import RunFolder


def describe_ground(ground: Ground) -> str:
    """Baselines, roofline and resolution in one line."""
    times = " | ".join(f"{arm.name} {milliseconds(arm.wall_ns.mid)}" for arm in ground.baselines)
    return (
        f"task {ground.task}  baseline {times}  roofline {milliseconds(ground.floor_ns)}  "
        f"resolution {100 * ground.resolution:.1f} %"
    )


def as_object(answer: Answer, folder: RunFolder) -> dict[str, Any]:
    """The object that `optimize --json` prints last."""
    return {
        "run": str(folder.path),
        "task": folder.record.task.name,
        "outcome": answer.outcome,
        "best": _best(answer.best) if answer.best else None,
        "first_win_s": answer.first_win_s,
        "candidates": answer.candidates,
        "accepted": answer.accepted,
        "wins": answer.wins,
        "notes": answer.notes,
    }


def _best(verdict: Verdict) -> dict[str, Any] | None:
    from kernelwright.core.verdict import Accepted, Measured, Unresolved

    match verdict.outcome:
        case Accepted(correctness=correctness, timing=Measured() | Unresolved() as timing):
            return {
                "candidate": verdict.candidate,
                "kind": verdict.candidate_kind,
                "speedup": timing.interval._asdict(),
                "baseline": timing.baseline,
                "roofline_share": timing.roofline_share,
                "error_over_budget": correctness.error_over_budget,
            }
        case _:
            return None


def as_text(answer: Answer, folder: RunFolder, ground: Ground | None, *, task: str) -> str:
    """The summary at the end of a run.

    Args:
        answer: what the loop came to.
        folder: the run folder.
        ground: the baselines, None if the run ended before they were timed.
        task: words that name the Task again on a command line.
    """
    lines = ["", describe_ground(ground)] if ground else []
    lines += _verdict_lines(answer, ground)
    lines += [f"  note: {note}" for note in answer.notes]
    lines.append(
        f"{answer.candidates} candidates, {answer.accepted} right, {answer.wins} T1 wins"
        + (f", the first win after {answer.first_win_s:.0f} s" if answer.first_win_s else "")
    )
    lines.append(f"run {folder.path}")
    if answer.best is not None:
        path = folder.candidate_path(answer.best.candidate)
        lines.append(f"source {path}")
        again = f"kernelwright judge {shlex.quote(str(path))} --task {task} --tier T2"
        lines.append(f"next: {again}")
    return "\n".join(lines)


def _verdict_lines(answer: Answer, ground: Ground | None) -> list[str]:
    best = _best(answer.best) if answer.best else None
    if answer.best is None or best is None:
        text = {
            "inconclusive": "inconclusive: this machine did not let the judge finish",
            "interrupted": "no verified win yet",
        }.get(answer.outcome, "no verified win: no candidate was right and confirmed")
        share = _share_of_fastest(ground)
        return [f"{text}{share}"]
    gain = ratio(answer.best.speedup) if answer.best.speedup else ""
    head = "verified win" if answer.best.win else "no verified win; the best is"
    share = (
        f", {100 * best['roofline_share']:.0f} % of the roofline" if best["roofline_share"] else ""
    )
    against = f"{gain} over {best['baseline']} at {answer.best.tier}{share}"
    lines = [f"{head}: {best['kind']} {best['candidate']}  {against}"]
    lines.append(f"  largest error {best['error_over_budget']:.2f} of the budget")
    return lines + [f"  note: {note}" for note in answer.best.provenance.notes]


def _share_of_fastest(ground: Ground | None) -> str:
    if ground is None or not ground.baselines:
        return ""
    fastest = ground.baselines[0]
    share = min(ground.floor_ns / fastest.wall_ns.mid, 1.0)
    return f"; {fastest.name} is at {100 * share:.0f} % of the roofline"
