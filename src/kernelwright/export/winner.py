"""The winner of a Run, and what speaks against exporting it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.verdict import Verdict
from kernelwright.runs import RunFolder
from kernelwright.tasks.catalog import reference_spec, require_unchanged
from kernelwright.tasks.reference import Reference, load_reference
from kernelwright.tasks.slots import Signature, read_signature


class ExportImpossible(KernelwrightError):
    """The Run has no winner of a kind that this format can hold, or the file is in the way."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        super().__init__(f"{where}: {what}. {advice}")


@dataclass(frozen=True, slots=True)
class Winner:
    """A Candidate that won, and the reference it won against."""

    verdict: Verdict
    candidate: Candidate
    reference: Reference
    signature: Signature


def find_winner(run: RunFolder) -> Winner:
    """The best Candidate of a Run.

    Raises:
        ExportImpossible: there is no win, or one of a kind that needs no export or has none.
        TaskUnusable: the reference changed since it was judged.
    """
    verdict = run.best()
    if verdict is None:
        more = f"Go on with kernelwright optimize --resume {run.path}."
        raise ExportImpossible(str(run.path), "it has no verified win", more)
    candidate = run.load_candidate(verdict.candidate)
    if candidate.kind == "python":
        what = "the winner is itself a Python file with ModelNew"
        where = run.candidate_path(candidate.id) / candidate.sources[0].name
        raise ExportImpossible(str(run.path), what, f"Copy {where}.")
    require_unchanged(run.record.task)
    reference = load_reference(reference_spec(run.record.task))
    signature = read_signature(reference, reference.default_shape)
    if any(slot.role == "state" for slot in signature.slots):
        what = "forward writes a buffer"
        raise ExportImpossible(reference.spec.target, what, "That cannot be exported yet.")
    return Winner(verdict, candidate, reference, signature)
