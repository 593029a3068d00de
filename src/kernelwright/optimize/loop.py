"""Screen Candidates until the Budget's search share is spent, then confirm the best."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Interval
from kernelwright.core.run import Budget, RunOutcome
from kernelwright.core.verdict import WIN_THRESHOLD, Inconclusive, Tier, Verdict
from kernelwright.propose import Problem, Proposer
from kernelwright.runs import RunFolder

_RESERVE_SHARE = 0.35
"""Of the wall budget, kept for confirming: a T2 Verdict on a small Task takes 10 to 30 s."""
_MAX_RESERVE_S = 120.0
_MAX_CONFIRMED = 3
Stored = defaultdict[tuple[str, Tier], deque[Verdict]]


class Judge(Protocol):
    """What the loop needs of a session; a stored Run answers too."""

    def judge(self, candidate: Candidate, tier: Tier) -> Verdict:
        """The Verdict on a Candidate; its failure is in there, never an exception."""
        ...


Watcher = Callable[[Candidate, Verdict], None]


@dataclass(slots=True)
class Answer:
    """What a Run came to."""

    outcome: RunOutcome = "no_win"
    best: Verdict | None = None
    """The final Verdict of the winner; without one, the best final Verdict that there is."""
    first_win_s: float | None = None
    """Seconds from `started` to the first win, at T1 or at the final tier."""
    candidates: int = 0
    """Different ones; a proposer may ask for one to be judged again."""
    accepted: int = 0
    wins: int = 0
    """Candidates with a win at T1: leads, not results."""
    notes: list[str] = field(default_factory=list)
    """What the proposer had to say."""


@dataclass(slots=True)
class _Screened:
    """A Candidate that was right at T1, and what it got each time: a proposer may repeat it."""

    candidate: Candidate
    intervals: list[Interval]

    @property
    def rank(self) -> float:
        """Mean of the low ends: the largest would favour the luckiest."""
        return sum(interval.low for interval in self.intervals) / len(self.intervals)

    @property
    def may_win(self) -> bool:
        return any(interval.high > WIN_THRESHOLD for interval in self.intervals)


def optimize(
    judge: Judge,
    proposer: Proposer,
    problem: Problem,
    folder: RunFolder,
    *,
    budget: Budget,
    started: float,
    watch: Watcher,
    tier: Tier = "T2",
) -> Answer:
    """Runs the loop. An interrupt ends it early with what there is.

    Verdicts that the folder holds already are taken as they stand and not made again: an
    interrupted Run goes on where it stopped, since a proposer is a function of its history.

    Args:
        judge: makes the Verdicts.
        proposer: yields Candidates; sees the Verdicts so far.
        problem: what the proposer may know; its notes go to the Answer.
        folder: keeps Candidates and Verdicts.
        budget: wall seconds, counted from `started`, and evaluations.
        started: `time.monotonic()` when the user's command began, start-up included.
        watch: told of each Verdict, for a display.
        tier: of the final Verdict, T2 or T3.
    """
    loop = _Loop(judge, folder, watch, started)
    try:
        loop.screen(proposer, replace(problem, note=loop.answer.notes.append), budget)
        loop.confirm(tier, deadline=started + budget.wall_s)
    except KeyboardInterrupt:
        loop.answer.outcome = "interrupted"
    return loop.answer


class _Loop:
    """One Run in progress."""

    def __init__(self, judge: Judge, folder: RunFolder, watch: Watcher, started: float) -> None:
        self.answer = Answer()
        self._judge_of, self._folder, self._watch, self._started = judge, folder, watch, started
        self._seen: set[str] = set()
        self._won: set[str] = set()
        self._right: dict[str, _Screened] = {}
        self._inconclusive = 0
        self._stored = _by_candidate(folder.verdicts())

    def screen(self, proposer: Proposer, problem: Problem, budget: Budget) -> None:
        """Judges at T1 what the proposer yields; at least one Candidate, whatever start-up took."""
        reserve_s = min(budget.wall_s * _RESERVE_SHARE, _MAX_RESERVE_S)
        ends = self._started + budget.wall_s - reserve_s
        history: list[Verdict] = []
        for candidate in proposer.propose(problem, history):
            verdict = self._judge(candidate, "T1")
            history.append(verdict)
            self._count(candidate, verdict)
            if time.monotonic() >= ends or len(history) >= budget.evaluations:
                break

    def confirm(self, tier: Tier, *, deadline: float) -> None:
        """Judges the best few at `tier`, best first, until one wins or the time is up.

        The first is confirmed even when the search overran: a Run with no such Verdict says
        nothing. A later one only if its screening leaves a win possible and, going by the one
        before, its Verdict fits into the time that is left.
        """
        ranked = sorted(self._right.values(), key=lambda screened: -screened.rank)
        took_s = 0.0
        for place, screened in enumerate(ranked[:_MAX_CONFIRMED]):
            fits = time.monotonic() + took_s <= deadline
            if place > 0 and not (fits and screened.may_win):
                break
            verdict = self._judge(screened.candidate, tier)
            took_s = verdict.wall_s
            self._keep_better(verdict)
            if verdict.win:
                self.answer.best, self.answer.outcome = verdict, "win"
                self._mark_first_win()
                return
        if self.answer.best is None and self._inconclusive:
            self.answer.outcome = "inconclusive"

    def _keep_better(self, verdict: Verdict) -> None:
        gain, best = verdict.speedup, self.answer.best
        kept = best.speedup if best else None
        if gain is not None and (kept is None or gain.low > kept.low):
            self.answer.best = verdict

    def _judge(self, candidate: Candidate, tier: Tier) -> Verdict:
        stored = self._stored[candidate.id, tier]
        if stored:
            verdict = stored.popleft()
            self._watch(candidate, verdict)
            return verdict
        self._folder.save_candidate(candidate)
        verdict = self._judge_of.judge(candidate, tier)
        if isinstance(verdict.outcome, Inconclusive):
            self._inconclusive += 1
        self._folder.append(verdict)
        self._watch(candidate, verdict)
        return verdict

    def _count(self, candidate: Candidate, verdict: Verdict) -> None:
        answer, gain = self.answer, verdict.speedup
        self._seen.add(candidate.id)
        answer.candidates = len(self._seen)
        if gain is None:
            return
        self._right.setdefault(candidate.id, _Screened(candidate, [])).intervals.append(gain)
        answer.accepted = len(self._right)
        if verdict.win:
            self._won.add(candidate.id)
            answer.wins = len(self._won)
            self._mark_first_win()

    def _mark_first_win(self) -> None:
        if self.answer.first_win_s is None:
            self.answer.first_win_s = time.monotonic() - self._started


def _by_candidate(verdicts: list[Verdict]) -> Stored:
    """In the order they were made; an inconclusive one says nothing, so it is asked for again."""
    stored: Stored = defaultdict(deque)
    for verdict in verdicts:
        if not isinstance(verdict.outcome, Inconclusive):
            stored[verdict.candidate, verdict.tier].append(verdict)
    return stored
