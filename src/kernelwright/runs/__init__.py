"""The append-only folder of a Run, and candidate folders.

In: records. Out: `run.json`, `verdicts.jsonl` and `grounds.jsonl` (one write per line) and
`candidates/<id>/`. Killing the writer at any instant loses at most the line in flight. `Replay`
lets a stored Run answer in the judge's place. No torch: a run opens on a laptop.
"""

from kernelwright.runs.candidates import read_candidate, write_candidate
from kernelwright.runs.folder import RunFolder, best_timed, best_win, create_run, open_run, run_id
from kernelwright.runs.head import new_record
from kernelwright.runs.lines import HalfLineSkipped
from kernelwright.runs.replay import NotReplayable, Replay

__all__ = [
    "HalfLineSkipped",
    "NotReplayable",
    "Replay",
    "RunFolder",
    "best_timed",
    "best_win",
    "create_run",
    "new_record",
    "open_run",
    "read_candidate",
    "run_id",
    "write_candidate",
]
