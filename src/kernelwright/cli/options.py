"""Options that several verbs share, with their help, and how a budget is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kernelwright.core.errors import KernelwrightError
from kernelwright.core.run import Budget

Json = Annotated[
    bool, Parameter(name="--json", negative="", help="Print one JSON object, last on stdout.")
]
Inputs = Annotated[
    tuple[str, ...],
    Parameter(
        name="--input",
        negative="",
        consume_multiple=True,
        help="For tasks that name a class: shape and dtype per argument, as 4096x1024:float32.",
    ),
]
KernelBench = Annotated[
    Path | None,
    Parameter(help="Folder that holds level1 to level4; without it, $KERNELBENCH_ROOT."),
]
Seed = Annotated[
    int | None,
    Parameter(
        validator=Number(gte=0), help="Fixes all draws, to repeat them; a claim needs a secret one."
    ),
]

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNTIMED_S = 3600.0
"""Wall limit of a budget that only counts candidates."""


class BudgetMalformed(KernelwrightError):
    """The --budget argument cannot be read."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"--budget {text}: it is neither a time nor a count. "
            "Write 90s, 5m, 1h, or a number of candidates such as 20; or both: 5m,20."
        )


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
