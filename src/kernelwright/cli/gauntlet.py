"""`kernelwright gauntlet`: the catalogue of cheats, and honest kernels, before the judge."""

from __future__ import annotations

import time
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kernelwright.cli.options import Json
from kernelwright.cli.output import Exit, print_json, say

if TYPE_CHECKING:
    from kernelwright.exploits import Finding

_On = Annotated[bool, Parameter(negative="")]
_Repeats = Annotated[int, Parameter(validator=Number(gte=1))]


def gauntlet(
    *,
    catalogue: tuple[Path, ...] = (),
    only: tuple[str, ...] = (),
    tier: Literal["T1", "T2", "T3"] = "T2",
    repeats: _Repeats = 1,
    tasks: _Repeats = 1,
    naive: _On = False,
    controls: _On = False,
    layers: _On = False,
    keep: Path | None = None,
    json: Json = False,
) -> int:
    """Run the catalogued cheats against the judge and print what it paid for.

    Exits with 0 where nothing undue was paid, no honest kernel refused and no bug let through, with
    1 otherwise, and with 3 where the machine is to blame for some of it.

    Args:
        catalogue: Folders of further entries. Their build.py runs as your own code.
        only: Names of the entries to run; without it, all.
        tier: How thoroughly each is judged.
        repeats: How often each is judged; more than once shows outcomes that flip.
        tasks: On how many Tasks each is tried, where as many suit it.
        naive: Run them against the weak verifier, too. It runs them unguarded.
        controls: Run the honest kernels, the twins and the seeded bugs, too.
        layers: Leave off each layer of the judge in turn and show who gains by it.
        keep: A file for the findings, one per line as they come. What it holds is not run again, so
            a run that was cut goes on; begin another file for another version of the judge.
    """
    from kernelwright.exploits import (
        CATALOGUE,
        EntryUnknown,
        Ledger,
        Plan,
        as_text,
        load_catalogue,
        run_gauntlet,
    )
    from kernelwright.judge.defences import Defences

    found = load_catalogue(CATALOGUE, *(folder.resolve() for folder in catalogue))
    unknown = sorted(set(only) - {entry.name for entry in found})
    if unknown:
        raise EntryUnknown(unknown[0])
    entries = tuple(entry for entry in found if not only or entry.name in only)
    card = run_gauntlet(
        Plan(entries, tier, repeats=repeats, tasks=tasks, ledger=Ledger(keep)),
        naive=naive,
        controls=controls,
        layers=[field.name for field in fields(Defences)] if layers else (),
        on_event=partial(say, as_json=True),
        on_finding=partial(_tell, time.monotonic()),
    )
    if json:
        print_json(card)
    else:
        say(as_text(card))
    if card["undue"] or card["honest_rejected"] or card["bugs_survived"]:
        return Exit.NO_WIN
    return Exit.INCONCLUSIVE if card["inconclusive"] else Exit.DONE


def _tell(started: float, finding: Finding) -> None:
    paid = "PAID" if finding.verifier == "judge" else "fools naive"
    mark = paid if finding.undue and finding.kind == "cheat" else finding.outcome
    text = f"{time.monotonic() - started:6.0f} s  {mark:12} {finding.label}  {finding.reason}"
    say(text[:160], as_json=True)
