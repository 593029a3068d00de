"""A proposer that yields what it was given: for replays, tests, and a folder of old winners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.propose.protocol import Problem


class CannedProposer:
    """Yields fixed Candidates in order."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._candidates = tuple(candidates)

    def propose(self, problem: Problem, history: Sequence[Verdict]) -> Iterator[Candidate]:
        """See `Proposer.propose`."""
        yield from self._candidates
