"""`python` Candidates: one file that defines `ModelNew`, KernelBench's submission format.

Whatever it builds (`load_inline` and its like) is built while its worker loads: minutes, where a
`cpp` Candidate takes a third of a second. It is judged all the same, and labelled.
"""

from __future__ import annotations

from pathlib import Path

from kernelwright.backends.artefact import Artefact, BuildFailure, PythonArtefact
from kernelwright.core.candidate import Candidate

SLOW_PATH = "slow path: the candidate builds itself while it loads"


class PythonBackend:
    """Puts the file where a worker can load it. It is not imported here, only compiled to bytes."""

    kind = "python"
    devices: tuple[str, ...] = ("cpu", "cuda")
    locked_up = True

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        sources = [source for source in candidate.sources if source.name.endswith(".py")]
        if len(sources) != 1:
            return BuildFailure(f"a python candidate is one .py file, this has {len(sources)}")
        try:
            compile(sources[0].text, sources[0].name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return BuildFailure(f"{sources[0].name}: {error}")
        folder = cache / "python" / candidate.id
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / sources[0].name
        path.write_text(sources[0].text)
        return PythonArtefact(
            "kernelwright.backends.arms:submission",
            {"path": str(path)},
            notes=(SLOW_PATH,),
            reads=(path,),
        )
