"""What a proposer is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.core.verdict import Verdict
from kernelwright.tasks.reference import Reference
from kernelwright.tasks.slots import Signature


def _ignore(_: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """What a proposer may know of a Task."""

    task: Task
    reference: Reference
    shape: Mapping[str, int]
    signature: Signature
    note: Callable[[str], None] = _ignore
    """Tells the user why there is nothing to propose."""


class Proposer(Protocol):
    """Yields Candidates. `history` grows while the caller judges them, in the order yielded."""

    def propose(self, problem: Problem, history: Sequence[Verdict]) -> Iterator[Candidate]:
        """The next Candidates; ends when it has no more ideas."""
        ...
