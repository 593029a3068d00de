"""Everything a report says, as one record: HTML, Markdown and JSON print the same one."""

from __future__ import annotations

import shlex

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CandidateUnreadable
from kernelwright.core.ground import Ground
from kernelwright.core.record import Interval, Record
from kernelwright.core.run import RunRecord
from kernelwright.core.verdict import (
    Accepted,
    Against,
    Measured,
    Rejected,
    Unresolved,
    Verdict,
)
from kernelwright.report.words import lines_of, ratio, summarise
from kernelwright.runs import RunFolder, best_timed, best_win


class Row(Record):
    """One Verdict of the Run, in order."""

    number: int
    tier: str
    candidate: str
    kind: str
    idea: str
    result: str
    """One line: the gate that said no, or the speed-up with its interval."""
    state: str
    """`win`, `right` or `rejected`; `inconclusive` is the machine's fault."""
    speedup: Interval | None
    error_over_budget: float | None
    ended_s: float
    """Seconds of judging up to and with this Verdict."""


class Winner(Record):
    """The best Verdict of the Run and its Candidate."""

    verdict: Verdict
    explanation: tuple[str, ...]
    against: tuple[Against, ...]
    sources: tuple[tuple[str, str], ...]
    """Names and texts, the largest `.cpp`, `.py` or `.json` first."""
    parent: tuple[tuple[str, str], ...] = ()
    """The same of the Candidate it was derived from; empty where there is none."""


class Facts(Record):
    """What a report on one Run says."""

    run: RunRecord
    folder: str
    headline: str
    outcome: str
    """`win`, `no_win`, or `empty` where nothing was judged."""
    ground: Ground | None
    """What the last session measured; None in a Run that ended before, or of an older version."""
    rows: tuple[Row, ...]
    candidates: int
    accepted: int
    winner: Winner | None
    """The win; without one, the best that was right; None where none was."""
    reproduce: tuple[str, ...]
    """Commands."""
    sources: dict[str, tuple[tuple[str, str], ...]]
    """Of every Candidate, by identity."""


def read_facts(folder: RunFolder) -> Facts:
    """Reads a whole Run.

    Raises:
        RunFolderUnusable: a file of it is corrupt.
        CandidateUnreadable: the best Candidate is missing or was changed.
    """
    verdicts = folder.verdicts()
    stored = {name: _stored(folder, name) for name in dict.fromkeys(v.candidate for v in verdicts)}
    best = best_win(verdicts) or best_timed(verdicts)
    grounds = folder.grounds()
    return Facts(
        run=folder.record,
        folder=str(folder.path),
        headline=_headline(folder.record, best, judged=bool(verdicts)),
        outcome="win" if best and best.win else "no_win" if verdicts else "empty",
        ground=grounds[-1] if grounds else None,
        rows=tuple(_rows(verdicts, stored)),
        candidates=len(stored),
        accepted=len({v.candidate for v in verdicts if isinstance(v.outcome, Accepted)}),
        winner=_winner(folder, best) if best else None,
        reproduce=_reproduce(folder, best),
        sources={name: _texts(one) for name, one in stored.items() if one is not None},
    )


def _headline(run: RunRecord, best: Verdict | None, *, judged: bool) -> str:
    if not judged:
        return f"{run.task.name}: nothing was judged in this run yet"
    if best is None or best.speedup is None:
        return f"{run.task.name}: no verified win; no candidate was right"
    gain = f"{ratio(best.speedup)} over {_baseline(best)} at {best.tier}"
    if best.win:
        return f"{run.task.name}: {gain}"
    return f"{run.task.name}: no verified win; the best is {gain}"


def _baseline(verdict: Verdict) -> str:
    match verdict.outcome:
        case Accepted(timing=Measured(baseline=name) | Unresolved(baseline=name)):
            return name
        case _:
            return "no baseline"


def _rows(verdicts: list[Verdict], stored: dict[str, Candidate | None]) -> list[Row]:
    rows, ended_s = [], 0.0
    for number, verdict in enumerate(verdicts, 1):
        ended_s += verdict.wall_s
        candidate = stored[verdict.candidate]
        rows.append(
            Row(
                number=number,
                tier=verdict.tier,
                candidate=verdict.candidate,
                kind=verdict.candidate_kind,
                idea=candidate.idea if candidate else "",
                result=summarise(verdict),
                state=_state(verdict),
                speedup=verdict.speedup,
                error_over_budget=_error(verdict),
                ended_s=ended_s,
            )
        )
    return rows


def _error(verdict: Verdict) -> float | None:
    match verdict.outcome:
        case Accepted(correctness=correctness):
            return correctness.error_over_budget
        case _:
            return None


def _state(verdict: Verdict) -> str:
    match verdict.outcome:
        case Accepted():
            return "win" if verdict.win else "right"
        case Rejected():
            return "rejected"
        case _:
            return "inconclusive"


def _winner(folder: RunFolder, verdict: Verdict) -> Winner:
    candidate = folder.load_candidate(verdict.candidate)
    parent = _stored(folder, candidate.parent) if candidate.parent else None
    against: tuple[Against, ...] = ()
    match verdict.outcome:
        case Accepted(timing=Measured(against=several) | Unresolved(against=several)):
            against = several
    return Winner(
        verdict=verdict,
        explanation=tuple(lines_of(verdict)),
        against=against,
        sources=_texts(candidate),
        parent=_texts(parent) if parent else (),
    )


def _stored(folder: RunFolder, identity: str) -> Candidate | None:
    """A Candidate of the Run; None where its folder is gone, which a report survives."""
    try:
        return folder.load_candidate(identity)
    except CandidateUnreadable:
        return None


def _texts(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """Headers last: they are the same in many Candidates."""
    ordered = sorted(candidate.sources, key=lambda s: (s.name.endswith(".h"), -len(s.text)))
    return tuple((source.name, source.text) for source in ordered)


def _reproduce(folder: RunFolder, best: Verdict | None) -> tuple[str, ...]:
    run = shlex.quote(str(folder.path))
    again = shlex.join(folder.record.command)
    if best is not None and best.win:
        return (f"kernelwright reverify {run}", again)
    return (f"kernelwright optimize --resume {run}", again)
