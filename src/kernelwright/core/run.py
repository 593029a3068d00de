"""Run: one budgeted search over one Task; and the Budget that ends it."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from kernelwright.core.errors import BudgetMalformed
from kernelwright.core.record import Record
from kernelwright.core.task import Task

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNTIMED_S = 3600.0
"""Wall limit of a budget that only counts candidates."""
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


def read_budget(text: str) -> Budget:
    """`90s`, `5m`, `1h`, `20` candidates, or a time and a count joined by a comma.

    Raises:
        BudgetMalformed: it is none of these.
    """
    limits: dict[str, float] = {}
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])|(\d{1,9})", part)
        if match is None:
            raise BudgetMalformed(text)
        amount, unit, count = match.groups()
        name = "evaluations" if count else "wall_s"
        value = int(count) if count else float(amount) * _UNIT_S[unit]
        if name in limits or value <= 0:
            raise BudgetMalformed(text)
        limits[name] = value
    return Budget.model_validate({"wall_s": _UNTIMED_S, **limits})
