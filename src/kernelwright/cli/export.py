"""`kernelwright export`: the winner of a Run as a file that needs no kernelwright."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kernelwright.cli.options import Json
from kernelwright.cli.output import print_json, say

Form = Literal["py", "kernelbench", "wheel", "hf"]


def export(
    run: Path,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    form: Annotated[Form, Parameter(name="--format")] = "py",
    json: Json = False,
) -> int:
    """Write the winner of a run to a file: reference, kernel, verdict, self-test.

    The file defines ModelNew, which takes the place of Model, and patch(model), which puts the
    kernel into a model that holds a Model. The reference runs wherever the kernel was not judged.
    Run it to test it on another machine.

    Args:
        run: A run folder.
        output: The file to write; for a wheel the folder to write it to, for hf the folder to make.
            Nothing is overwritten.
        form: py: one Python file, which compiles its kernel at first use, and which KernelBench
            takes as it is. wheel: a package with the built kernel, for machines without a compiler.
            hf: the same as a folder that Hugging Face's kernels package loads.
    """
    from kernelwright.export import export_file, export_hub, export_wheel
    from kernelwright.runs import open_run

    if form == "wheel":
        output, verdict = export_wheel(open_run(run), output)
        test = f"pip install {output}; python -m {output.name.partition('-')[0]}"
    elif form == "hf":
        output, verdict = export_hub(open_run(run), output)
        code = f"from kernels import get_local_kernel as get; get({str(output)!r}).main()"
        test = f'python -c "{code}"'
    else:
        verdict = export_file(open_run(run), output)
        test = f"python {output}"
    if json:
        print_json({"file": str(output), "candidate": verdict.candidate, "tier": verdict.tier})
    else:
        say(f"wrote {output}; test it with: {test}")
    return 0
