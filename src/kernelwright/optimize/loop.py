"""Screen Candidates until the Budget's search share is spent, then confirm the best."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.core.candidate import Candidate
from kernelwright.core.run import Budget, RunOutcome
from kernelwright.core.verdict import Accepted, Inconclusive, Verdict
from kernelwright.judge import Session
from kernelwright.propose import Problem, Proposer
from kernelwright.runs import RunFolder

_SEARCH_SHARE = 0.6
"""Of the wall budget; the rest confirms, with max-autotune as one more baseline."""
_MAX_CONFIRMED = 3
Watcher = Callable[[Candidate, Verdict], None]


@dataclass(slots=True)
class Answer:
    """What a Run came to."""

    outcome: RunOutcome = "no_win"
    best: Verdict | None = None
    """The T2 Verdict of the winner, or of the best confirmed Candidate."""
    best_candidate: Candidate | None = None
    first_win_s: float | None = None
    """Seconds from `started` to the first T1 win."""
    candidates: int = 0
    accepted: int = 0
    wins: int = 0
    inconclusive: int = 0
    _screened: list[tuple[float, Candidate]] = field(default_factory=list)


def optimize(
    session: Session,
    proposer: Proposer,
    folder: RunFolder,
    *,
    budget: Budget,
    started: float,
    watch: Watcher,
) -> Answer:
    """Runs the loop.

    Args:
        session: judges.
        proposer: yields Candidates; sees the Verdicts so far.
        folder: keeps Candidates and Verdicts.
        budget: wall seconds, counted from `started`, and evaluations.
        started: `time.monotonic()` when the user's command began, start-up included.
        watch: told of each Verdict, for a display.
    """
    answer = Answer()
    history: list[Verdict] = []
    search_ends = started + budget.wall_s * _SEARCH_SHARE
    problem = Problem(session.task, session.reference, session.shape, session.main.signature)
    for candidate in proposer.propose(problem, history):
        verdict = _judge(session, folder, candidate, "T1", watch)
        history.append(verdict)
        _count(answer, candidate, verdict, started)
        if time.monotonic() >= search_ends or answer.candidates >= budget.evaluations:
            break
    _confirm(answer, session, folder, started + budget.wall_s, watch)
    return answer


def _judge(
    session: Session, folder: RunFolder, candidate: Candidate, tier: str, watch: Watcher
) -> Verdict:
    folder.save_candidate(candidate)
    verdict = session.judge(candidate, "T2" if tier == "T2" else "T1")
    folder.append(verdict)
    watch(candidate, verdict)
    return verdict


def _count(answer: Answer, candidate: Candidate, verdict: Verdict, started: float) -> None:
    answer.candidates += 1
    if isinstance(verdict.outcome, Inconclusive):
        answer.inconclusive += 1
    if not isinstance(verdict.outcome, Accepted) or verdict.speedup is None:
        return
    answer.accepted += 1
    answer._screened.append((verdict.speedup.mid, candidate))
    if verdict.win:
        answer.wins += 1
        if answer.first_win_s is None:
            answer.first_win_s = time.monotonic() - started


def _confirm(
    answer: Answer, session: Session, folder: RunFolder, deadline: float, watch: Watcher
) -> None:
    """Judges the best few at T2, best first, until one wins or the time is up.

    The first is confirmed even when the search overran: a Run without a T2 Verdict says nothing.
    """
    ranked = sorted(answer._screened, key=lambda entry: -entry[0])
    confirmed = 0
    for gain, candidate in ranked[:_MAX_CONFIRMED]:
        if confirmed and (time.monotonic() >= deadline or gain < 1.0):
            break
        verdict = _judge(session, folder, candidate, "T2", watch)
        confirmed += isinstance(verdict.outcome, Accepted)
        answer.inconclusive += isinstance(verdict.outcome, Inconclusive)
        if verdict.win or (answer.best is None and verdict.speedup is not None):
            answer.best, answer.best_candidate = verdict, candidate
        if verdict.win:
            answer.outcome = "win"
            return
    if answer.inconclusive and answer.inconclusive >= answer.candidates:
        answer.outcome = "inconclusive"
