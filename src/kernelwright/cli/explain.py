"""`kernelwright explain`: what a Verdict says, gate by gate, and what would have passed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.cli.options import Json
from kernelwright.cli.output import Exit, print_json, say
from kernelwright.core.errors import KernelwrightError
from kernelwright.report.words import lines_of

if TYPE_CHECKING:
    from kernelwright.core.verdict import Verdict


class VerdictNotFound(KernelwrightError):
    """The argument holds no Verdict."""

    def __init__(self, where: Path, what: str) -> None:
        super().__init__(
            f"{where}: {what}. Name a run folder, RUN/candidates/ID, or a file that "
            "kernelwright judge --json wrote."
        )


def explain(verdict: Path, *, json: Json = False) -> int:
    """Say which gates a candidate passed, how close it came, and what would have passed.

    Args:
        verdict: A run folder (its best verdict), RUN/candidates/ID (the last one on that
            candidate), or a file that holds the output of kernelwright judge --json.
    """
    found = find_verdict(verdict)
    lines = list(lines_of(found))
    if json:
        print_json(found.model_dump(mode="json") | {"win": found.win, "explanation": lines})
    else:
        say("\n".join(lines))
    return Exit.DONE


def find_verdict(path: Path) -> Verdict:
    """The Verdict that a run folder, a candidate folder in one, or a file holds."""
    from kernelwright.runs import open_run

    if path.is_file():
        return _read(path)
    if path.parent.name == "candidates":
        on_it = [v for v in open_run(path.parents[1]).verdicts() if v.candidate == path.name]
        if not on_it:
            raise VerdictNotFound(path, "its run holds no verdict on it")
        return on_it[-1]
    folder = open_run(path)
    verdicts = folder.verdicts()
    if not verdicts:
        raise VerdictNotFound(path, "nothing was judged in it yet")
    return folder.best() or verdicts[-1]


def _read(path: Path) -> Verdict:
    import json as json_module

    from pydantic import ValidationError

    from kernelwright.core.verdict import Verdict

    try:
        fields = json_module.loads(path.read_text().strip().splitlines()[-1])
        if isinstance(fields, dict):
            fields.pop("win", None)
        return Verdict.model_validate(fields)
    except (ValidationError, ValueError, IndexError):
        raise VerdictNotFound(path, "its last line is no verdict") from None
