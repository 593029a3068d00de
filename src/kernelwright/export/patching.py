"""Puts the winner of a Run into a live model."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kernelwright.core.errors import KernelwrightError
from kernelwright.export.runtime import KernelNotUsed
from kernelwright.export.text import render
from kernelwright.export.winner import find_winner
from kernelwright.runs import RunFolder, open_run

if TYPE_CHECKING:
    import torch

    from kernelwright.export.live import Patched


class NothingToPatch(KernelwrightError):
    """The model has no module of the class that the Run's Task is about."""


def patch(model: torch.nn.Module, run: RunFolder | Path | str) -> Patched:
    """Lets every module of the Task's class in `model` run the kernel that won.

    The modules keep their identity, parameters and state_dict. A module counts as one of the class
    if its class has the same name and means the same as the reference's. Where the kernel was not
    judged (gradients, other sizes or dtypes) the module computes as before, with one warning.

    Args:
        model: changed in place.
        run: a Run with a win, or its folder.

    Returns:
        How many modules were swapped, what ran, and `undo()`.

    Raises:
        NothingToPatch: the model has no such module; the text says which it has.
        ExportImpossible: the Run has no winner that can be exported.
        TaskUnusable: the reference changed since it was judged.
    """
    winner = find_winner(run if isinstance(run, RunFolder) else open_run(Path(run)))
    module = _loaded(render(winner), winner.candidate.id)
    try:
        return module.patch_modules(module.KERNEL, model, module.Model)
    except module.NothingToPatch as error:
        raise NothingToPatch(str(error)) from None


def _loaded(text: str, identity: str) -> ModuleType:
    """A module of its own per call, so that each patch has its own counters."""
    name = next(
        name
        for at in range(sys.maxsize)
        if (name := f"kernelwright_{identity}_{at}") not in sys.modules
    )
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), vars(module))  # noqa: S102 - our own text
    # A warning's class must be one that a filter, or another process, can import.
    vars(module)["KernelNotUsed"] = KernelNotUsed
    return module
