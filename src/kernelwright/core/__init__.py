"""The nouns, as frozen records, and the errors a user can cause.

Nothing comes in but plain values and nothing goes out but records: no torch, no file, no process.
Every other room speaks in these words.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.core.candidate import Candidate, CandidateKind, SourceFile
    from kernelwright.core.errors import (
        CandidateUnreadable,
        CompilerMissing,
        KernelwrightError,
        MachineUnsupported,
        RunFolderUnusable,
        TaskNotFound,
        TaskUnusable,
    )
    from kernelwright.core.ground import Ground
    from kernelwright.core.record import Interval, Record
    from kernelwright.core.run import Budget, RunOutcome, RunRecord
    from kernelwright.core.task import (
        BuiltinOrigin,
        Dim,
        FileOrigin,
        InputSpec,
        KernelBenchOrigin,
        ModuleOrigin,
        Origin,
        Task,
    )
    from kernelwright.core.verdict import (
        Accepted,
        Against,
        ArmTime,
        CheckedCall,
        Correctness,
        Inconclusive,
        Measured,
        NotTimed,
        Outcome,
        Provenance,
        Rejected,
        Tier,
        Timing,
        Unresolved,
        Verdict,
    )

__all__ = [
    "Accepted",
    "Against",
    "ArmTime",
    "Budget",
    "BuiltinOrigin",
    "Candidate",
    "CandidateKind",
    "CandidateUnreadable",
    "CheckedCall",
    "CompilerMissing",
    "Correctness",
    "Dim",
    "FileOrigin",
    "Ground",
    "Inconclusive",
    "InputSpec",
    "Interval",
    "KernelBenchOrigin",
    "KernelwrightError",
    "MachineUnsupported",
    "Measured",
    "ModuleOrigin",
    "NotTimed",
    "Origin",
    "Outcome",
    "Provenance",
    "Record",
    "Rejected",
    "RunFolderUnusable",
    "RunOutcome",
    "RunRecord",
    "SourceFile",
    "Task",
    "TaskNotFound",
    "TaskUnusable",
    "Tier",
    "Timing",
    "Unresolved",
    "Verdict",
]

_HOME = {
    "kernelwright.core.candidate": ("Candidate", "CandidateKind", "SourceFile"),
    "kernelwright.core.errors": (
        "CandidateUnreadable",
        "CompilerMissing",
        "KernelwrightError",
        "MachineUnsupported",
        "RunFolderUnusable",
        "TaskNotFound",
        "TaskUnusable",
    ),
    "kernelwright.core.ground": ("Ground",),
    "kernelwright.core.record": ("Interval", "Record"),
    "kernelwright.core.run": ("Budget", "RunOutcome", "RunRecord"),
    "kernelwright.core.task": (
        "BuiltinOrigin",
        "Dim",
        "FileOrigin",
        "InputSpec",
        "KernelBenchOrigin",
        "ModuleOrigin",
        "Origin",
        "Task",
    ),
    "kernelwright.core.verdict": (
        "Accepted",
        "Against",
        "ArmTime",
        "CheckedCall",
        "Correctness",
        "Inconclusive",
        "Measured",
        "NotTimed",
        "Outcome",
        "Provenance",
        "Rejected",
        "Tier",
        "Timing",
        "Unresolved",
        "Verdict",
    ),
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: workers need this package, and run where pydantic is absent."""
    for home, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
