"""`kernelwright optimize`: search for a verified faster kernel within a budget."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelwright.cli.options import Inputs, Json, KernelBench, Seed
from kernelwright.cli.output import Exit, complain, print_json, say
from kernelwright.cli.progress import Progress
from kernelwright.cli.result import as_object, as_text
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.run import read_budget

if TYPE_CHECKING:
    from kernelwright.core.ground import Ground
    from kernelwright.core.run import Budget
    from kernelwright.core.verdict import Tier
    from kernelwright.optimize import Answer
    from kernelwright.propose import Proposer
    from kernelwright.runs import RunFolder

_BUDGET = "90s"
_STATUS = {
    "win": Exit.DONE,
    "no_win": Exit.NO_WIN,
    "inconclusive": Exit.INCONCLUSIVE,
    "interrupted": Exit.INTERRUPTED,
}


class WrongTask(KernelwrightError):
    """Neither a TASK nor a Run to go on with, or both."""

    def __init__(self) -> None:
        super().__init__("optimize needs a TASK, or --resume RUN, which has one: name one of them")


def optimize(
    task: str | None = None,
    *,
    resume: Path | None = None,
    budget: str | None = None,
    tier: Literal["T2", "T3"] = "T2",
    proposer: str = "search",
    input: Inputs = (),  # noqa: A002
    kernelbench: KernelBench = None,
    runs: Path = Path("runs"),
    seed: Seed = None,
    json: Json = False,
) -> int:
    """Search for a faster kernel and verify it against the best of eager and torch.compile.

    Args:
        task: A built-in name, file.py, file.py:Class, package.module:Class or kernelbench:1/23.
        resume: A run folder to go on with: its task and proposer, and what it has judged already.
        budget: Wall time with start-up (90s, 5m, 1h), a number of candidates (20), or both: 5m,20.
            Default is 90s, or what the resumed run had.
        tier: How thoroughly the answer is verified before it is given: T2, or T3 in fresh sessions.
        proposer: Who proposes candidates.
        runs: Where run folders go.
    """
    from kernelwright.propose import find_proposer
    from kernelwright.runs import create_run, new_record, open_run
    from kernelwright.tasks.catalog import find_task, require_unchanged, words_of

    if (task is None) == (resume is None):
        raise WrongTask
    limit = read_budget(budget or _BUDGET)
    if resume is not None:
        folder = open_run(resume)
        require_unchanged(folder.record.task)
        limit = limit if budget else folder.record.budget
        make = find_proposer(folder.record.proposer)
    else:
        make = find_proposer(proposer)
        found = find_task(str(task), inputs=input, kernelbench=kernelbench)
        command = ("kernelwright", *sys.argv[1:])
        folder = create_run(
            runs, new_record(found, proposer=proposer, budget=limit, command=command)
        )
    with folder.lock():
        answer, ground = _search(folder, make(), limit, tier=tier, seed=seed, as_json=json)
    if answer.outcome == "interrupted":
        complain(f"interrupted; what was judged so far is in {folder.path}")
    if json:
        print_json(as_object(answer, folder))
    else:
        say(as_text(answer, folder, ground, task=shlex.join(words_of(folder.record.task))))
    return _STATUS[answer.outcome]


def _search(
    folder: RunFolder,
    proposer: Proposer,
    budget: Budget,
    *,
    tier: Tier,
    seed: int | None,
    as_json: bool,
) -> tuple[Answer, Ground | None]:
    """Runs the loop under a live display; an interrupt at any moment is an Answer too."""
    from kernelwright.judge import open_session
    from kernelwright.optimize import Answer, search

    task, started = folder.record.task, _process_started()
    answer, ground = Answer(outcome="interrupted"), None
    try:
        with (
            Progress(task.name, budget.wall_s, started, as_json=as_json) as progress,
            open_session(task, seed=seed, on_event=progress.event) as session,
        ):
            ground = session.ground
            progress.ready(ground)
            answer = search(
                session,
                proposer,
                folder,
                budget=budget,
                started=started,
                watch=progress.judged,
                tier=tier,
            )
    except KeyboardInterrupt:
        answer.outcome = "interrupted"
    return answer, ground


def _process_started() -> float:
    """When this process began, on the clock of `time.monotonic`: a budget includes start-up."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s
    return time.monotonic() - age_s
