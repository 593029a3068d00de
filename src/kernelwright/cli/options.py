"""Options that several verbs share, with their help, and how a budget is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

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
Device = Annotated[
    Literal["cpu", "cuda"],
    Parameter(help="Where the task is computed: this machine's cores, or its first CUDA device."),
]
Seed = Annotated[
    int | None,
    Parameter(
        validator=Number(gte=0), help="Fixes all draws, to repeat them; a claim needs a secret one."
    ),
]
