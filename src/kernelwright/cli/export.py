"""`kernelwright export`: the winner of a Run as a file that needs no kernelwright."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelwright.cli.options import Json
from kernelwright.cli.output import print_json, say


def export(
    run: Path, *, output: Annotated[Path, Parameter(name=["--output", "-o"])], json: Json = False
) -> int:
    """Write the winner of a run to one Python file: reference, kernel source, verdict, self-test.

    The file defines ModelNew, which takes the place of Model, compiles its kernel at first use and
    runs the reference wherever the kernel was not judged. Run it to test it on another machine.

    Args:
        run: A run folder.
        output: The file to write; never overwritten.
    """
    from kernelwright.export import export_file
    from kernelwright.runs import open_run

    verdict = export_file(open_run(run), output)
    if json:
        print_json({"file": str(output), "candidate": verdict.candidate, "tier": verdict.tier})
    else:
        say(f"wrote {output}; test it with: python {output}")
    return 0
