"""kernelwright from Python: the same rooms as the command line, in a few names."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from kernelwright import core
from kernelwright.core.errors import TaskUnusable
from kernelwright.core.run import Budget, read_budget
from kernelwright.core.verdict import Tier, Verdict
from kernelwright.export import export_file, export_wheel
from kernelwright.export import patch as patch_model
from kernelwright.judge import open_session
from kernelwright.optimize import search
from kernelwright.propose import find_proposer
from kernelwright.report import as_html, as_markdown, read_facts
from kernelwright.runs import RunFolder, create_run, new_record, open_run
from kernelwright.tasks.catalog import find_task

if TYPE_CHECKING:
    from kernelwright.core.candidate import Candidate


class Task(core.Task):
    """What must be computed, with the ways to name it."""

    @classmethod
    def named(cls, name: str, *, inputs: Sequence[str] = ()) -> Task:
        """A built-in name, file.py, file.py:Class, package.module:Class or kernelbench:1/23.

        Raises:
            TaskNotFound: it names nothing.
            TaskUnusable: the inputs of a class are malformed or missing.
        """
        return cls.model_validate(find_task(name, inputs=inputs).model_dump())

    @classmethod
    def from_module(cls, module: type[torch.nn.Module], *inputs: torch.Tensor | str) -> Task:
        """A module class that a file defines and that needs no constructor argument.

        Args:
            module: the class.
            inputs: one per argument of `forward`: a tensor of that shape and dtype, or words such
                as `"64x512:float32"`. Their numbers do not matter: the judge draws its own.

        Raises:
            TaskUnusable: the class was not defined in a file, or no input is given.
        """
        try:
            path = inspect.getsourcefile(module)
        except TypeError:
            path = None
        if path is None or not Path(path).is_file() or "<locals>" in module.__qualname__:
            advice = "Put it at the top level of a .py file: workers must be able to import it."
            raise TaskUnusable(module.__qualname__, "no file defines this class", advice)
        return cls.named(f"{path}:{module.__qualname__}", inputs=[_words(one) for one in inputs])


class Run:
    """One budgeted search and what it found. Made by `optimize`, or read back with `load`."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Reads a run folder.

        Raises:
            RunFolderUnusable: it is missing, corrupt, or made by a newer version.
        """
        return cls(open_run(Path(path)))

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._folder.path

    @property
    def best(self) -> Verdict | None:
        """The Verdict of the best win at the highest tier that has one; None without a win."""
        return self._folder.best()

    @property
    def verdicts(self) -> list[Verdict]:
        """All Verdicts in order."""
        return self._folder.verdicts()

    def export(self, target: str | Path, *, wheel: bool = False) -> Path:
        """Writes the winner to a new `.py` file, or as a wheel into the folder `target`.

        Raises:
            ExportImpossible: there is no win, it does not fit into a file, or `target` exists.
        """
        if wheel:
            return export_wheel(self._folder, Path(target))[0]
        export_file(self._folder, Path(target))
        return Path(target)

    def report(self, target: str | Path) -> Path:
        """Writes a report: Markdown where `target` ends in `.md`, else one HTML file."""
        target = Path(target)
        write = as_markdown if target.suffix == ".md" else as_html
        target.write_text(write(read_facts(self._folder)))
        return target

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {read_facts(self._folder).headline})"


def optimize(
    task: core.Task | str,
    *,
    budget: str | Budget = "90s",
    runs: str | Path = "runs",
    proposer: str = "search",
    tier: Literal["T2", "T3"] = "T2",
    seed: int | None = None,
) -> Run:
    """Searches for a faster kernel and verifies it against the best of eager and torch.compile.

    Args:
        task: a Task, or the words that name one.
        budget: wall time with start-up (`90s`, `5m`), a number of candidates, or both: `5m,20`.
        runs: where run folders go.
        proposer: who proposes candidates.
        tier: how thoroughly the answer is verified before it is given.
        seed: fixes all draws, to repeat them; a claim needs a secret one.

    Raises:
        TaskNotFound, TaskUnusable: the task cannot be loaded or does not run.
        CompilerMissing: there is no C++ compiler.
    """
    started = time.monotonic()
    found = Task.named(task) if isinstance(task, str) else task
    limit = read_budget(budget) if isinstance(budget, str) else budget
    maker = find_proposer(proposer)
    record = new_record(found, proposer=proposer, budget=limit, command=tuple(sys.argv))
    folder = create_run(Path(runs), record)
    with folder.lock(), open_session(found, seed=seed) as session:
        answer = search(
            session,
            maker(),
            folder,
            budget=limit,
            started=started,
            watch=lambda *_: None,
            tier=tier,
        )
    if answer.outcome == "interrupted":
        raise KeyboardInterrupt
    return Run(folder)


def judge(
    candidate: Candidate, task: core.Task | str, *, tier: Tier = "T2", seed: int | None = None
) -> Verdict:
    """One Verdict. A Candidate's failure is in it, never an exception.

    Raises:
        TaskNotFound, TaskUnusable: the task cannot be loaded or does not run.
    """
    found = Task.named(task) if isinstance(task, str) else task
    with open_session(found, seed=seed) as session:
        return session.judge(candidate, tier)


def patch(model: torch.nn.Module, run: Run | str | Path) -> Any:
    """Puts a Run's winner in the place of its module in a live model.

    Every submodule whose class has the judged source and configuration is swapped. It keeps its
    parameters, runs the kernel where that was judged, and the reference elsewhere, with a warning.

    Returns:
        An object with `modules` (how many were swapped), `calls` (of the kernel), `fallbacks` (to
        the reference) and `undo()`.

    Raises:
        ExportImpossible: the Run has no win, or one that cannot be exported.
        NothingToPatch: the model has no such module.
    """
    folder = run._folder if isinstance(run, Run) else open_run(Path(run))
    return patch_model(model, folder)


def _words(one: Any) -> str:
    if isinstance(one, str):
        return one
    return "x".join(map(str, one.shape)) + f":{str(one.dtype).removeprefix('torch.')}"
