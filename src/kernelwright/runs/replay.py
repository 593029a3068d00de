"""A stored Run that answers in the judge's place: no compiler, no worker, no time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.verdict import Tier, Verdict
from kernelwright.runs.folder import RunFolder


class NotReplayable(KernelwrightError):
    """The stored Run holds no Verdict on what it is asked for."""

    def __init__(self, run: str, candidate: str, tier: str) -> None:
        super().__init__(
            f"{run}: it holds no {tier} verdict on {candidate}. Judge it: kernelwright judge."
        )


class Replay:
    """A judge and a proposer at once: what was proposed then, and what was said of it.

    Another budget, another order of confirming, or another reward can be tried on it in
    milliseconds (Kernel Tuner calls this simulation mode).
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._verdicts: dict[tuple[str, Tier], deque[Verdict]] = defaultdict(deque)
        self._order = folder.verdicts()
        for verdict in self._order:
            self._verdicts[verdict.candidate, verdict.tier].append(verdict)

    def judge(self, candidate: Candidate, tier: Tier) -> Verdict:
        """The next stored Verdict on it at that tier; the last one over and over.

        Raises:
            NotReplayable: it was never judged at that tier.
        """
        stored = self._verdicts.get((candidate.id, tier))
        if not stored:
            raise NotReplayable(str(self._folder.path), candidate.id, tier)
        return stored.popleft() if len(stored) > 1 else stored[0]

    def propose(self, problem: Any, history: Sequence[Verdict]) -> Iterator[Candidate]:
        """The screened Candidates in the order they were judged, repeats included."""
        for verdict in self._order:
            if verdict.tier == "T1":
                yield self._folder.load_candidate(verdict.candidate)
