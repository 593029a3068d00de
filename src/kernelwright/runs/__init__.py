"""The append-only folder of a Run, and candidate folders.

In: records. Out: `run.json`, `verdicts.jsonl` (one write per line) and `candidates/<id>/`. Killing
the writer at any instant loses at most the line in flight. No torch: a run opens on a laptop.
"""

from kernelwright.runs.candidates import read_candidate, write_candidate
from kernelwright.runs.folder import HalfLineSkipped, RunFolder, create_run, open_run, run_id

__all__ = [
    "HalfLineSkipped",
    "RunFolder",
    "create_run",
    "open_run",
    "read_candidate",
    "run_id",
    "write_candidate",
]
