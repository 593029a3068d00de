"""Writes the winner of a Run as one Python file that needs torch and a compiler, nothing else."""

from __future__ import annotations

from pathlib import Path

from kernelwright.core.verdict import Verdict
from kernelwright.export.gate import require_sound_operator
from kernelwright.export.place import require_free, write_new
from kernelwright.export.text import render
from kernelwright.export.winner import find_winner
from kernelwright.runs import RunFolder


def export_file(run: RunFolder, target: Path) -> Verdict:
    """Writes the Run's winner to `target`, a new `.py` file that defines `ModelNew`.

    Returns:
        The Verdict that the file carries.

    Raises:
        ExportImpossible: no win, a kind that does not fit into one file, an operator that torch's
            checks refuse, or `target` exists.
        TaskUnusable: the reference changed since it was judged.
    """
    winner = find_winner(run)
    require_free(target)
    text = render(winner)
    require_sound_operator(text)
    write_new(target, text.encode())
    return winner.verdict
