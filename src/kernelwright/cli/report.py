"""`kernelwright report`: what a Run found, as a page, as Markdown, or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kernelwright.cli.options import Json
from kernelwright.cli.output import Exit, print_json, say
from kernelwright.core.errors import KernelwrightError

_NAMES = {"html": "report.html", "md": "report.md"}


class ReportUnwritable(KernelwrightError):
    """The file cannot be written."""

    def __init__(self, where: Path, why: str) -> None:
        super().__init__(f"{where}: it cannot be written ({why}). Name another with --output.")


def report(
    run: Path,
    *,
    format: Literal["html", "md"] = "html",  # noqa: A002
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    json: Json = False,
) -> int:
    """Write a report on a run: one file that opens offline.

    With --json nothing is written, and everything that a report says is printed.

    Args:
        run: A run folder.
        format: A page with charts, or Markdown.
        output: The file to write; without it, report.html or report.md in the run folder.
    """
    from kernelwright.report import as_html, as_markdown, read_facts
    from kernelwright.runs import open_run

    facts = read_facts(open_run(run))
    if json:
        print_json(facts.model_dump(mode="json"))
        return Exit.DONE
    text = as_html(facts) if format == "html" else as_markdown(facts)
    target = output or run / _NAMES[format]
    try:
        target.write_text(text)
    except OSError as error:
        raise ReportUnwritable(target, error.strerror or str(error)) from None
    say(f"{facts.headline}\nwrote {target}")
    return Exit.DONE
