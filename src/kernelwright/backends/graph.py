"""`graph` Candidates: a list of allow-listed ATen calls, pure data, compiled by torch.compile."""

from __future__ import annotations

from pathlib import Path

from kernelwright.backends.artefact import Artefact, BuildFailure, PythonArtefact
from kernelwright.core.candidate import Candidate


class GraphBackend:
    """Checks the program; its worker compiles it before it serves a call."""

    kind = "graph"
    devices: tuple[str, ...] = ("cpu", "cuda")
    locked_up = False

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        from kernelwright.backends.graph_program import ProgramError, parse

        sources = [source for source in candidate.sources if source.name.endswith(".json")]
        if len(sources) != 1:
            return BuildFailure(f"a graph candidate is one .json file, this has {len(sources)}")
        try:
            parse(sources[0].text)
        except ProgramError as error:
            return BuildFailure(f"{sources[0].name}: {error}")
        return PythonArtefact("kernelwright.backends.arms:graph", {"program": sources[0].text})
