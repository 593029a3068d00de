"""Run: one budgeted search over one Task; and the Budget that ends it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelwright.core.record import Record
from kernelwright.core.task import Task

RunOutcome = Literal["win", "no_win", "inconclusive", "interrupted"]


class Budget(Record):
    """Seconds and evaluations; whichever ends first."""

    wall_s: float = Field(default=90.0, gt=0)
    evaluations: int = Field(default=10_000, gt=0)


class RunRecord(Record):
    """The head of a run folder, written once when the Run begins."""

    schema_version: int = 2
    id: str
    task: Task
    proposer: str
    budget: Budget
    started: str
    """ISO 8601, UTC."""
    command: tuple[str, ...]
    machine: str
    versions: dict[str, str]
