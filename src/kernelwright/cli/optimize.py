"""`kernelwright optimize`: search for a verified faster kernel within a budget."""

from __future__ import annotations

import datetime
import os
import platform
import re
import secrets
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kernelwright.cli.output import print_json, ratio, say
from kernelwright.cli.progress import Progress
from kernelwright.core.errors import KernelwrightError

if TYPE_CHECKING:
    from kernelwright.core.run import RunRecord
    from kernelwright.optimize import Answer
    from kernelwright.runs import RunFolder

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_EXIT = {"win": 0, "no_win": 1, "inconclusive": 3}


class BudgetMalformed(KernelwrightError):
    """The --budget argument is no time."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--budget {text}: it is no time. Write 90s, 5m or 1h.")


def optimize(
    task: str,
    *,
    budget: str = "90s",
    evaluations: int = 10_000,
    proposer: str = "search",
    input: Annotated[tuple[str, ...], Parameter(name="--input")] = (),  # noqa: A002
    kernelbench: Path | None = None,
    runs: Path = Path("runs"),
    seed: int | None = None,
    json: bool = False,
) -> int:
    """Search for a faster kernel and verify it against the best of eager and torch.compile.

    Parameters
    ----------
    task
        A built-in name, file.py, file.py:Class, package.module:Class or kernelbench:1/23.
    budget
        Wall time, start-up included: 90s, 5m, 1h.
    evaluations
        Stop after this many candidates.
    proposer
        Who proposes candidates.
    input
        For tasks that name a class: shape and dtype, such as 4096x1024:float32.
    kernelbench
        Folder that holds level1 to level4; default $KERNELBENCH_ROOT.
    runs
        Where run folders go.
    seed
        Fixes all draws, to repeat a run; a claim needs a secret one.
    json
        Print the result as one JSON object, last on stdout.
    """
    started = time.monotonic()
    from kernelwright.core.run import Budget
    from kernelwright.judge import open_session
    from kernelwright.optimize import optimize as run_loop
    from kernelwright.propose import PROPOSERS
    from kernelwright.runs import create_run
    from kernelwright.tasks.catalog import find_task

    if proposer not in PROPOSERS:
        raise KernelwrightError(
            f"no proposer {proposer!r}: choose one of {', '.join(sorted(PROPOSERS))}"
        )
    limit = Budget(wall_s=_seconds(budget), evaluations=evaluations)
    found = find_task(task, inputs=input, kernelbench=kernelbench)
    folder = create_run(runs, _record(found, proposer, limit))
    try:
        with (
            Progress(found.name, limit.wall_s, started, as_json=json) as progress,
            open_session(found, seed=seed, on_event=progress.event) as session,
        ):
            progress.ready(session)
            answer = run_loop(
                session,
                PROPOSERS[proposer](),
                folder,
                budget=limit,
                started=started,
                watch=progress.judged,
            )
            baselines = session.baselines()
    except KeyboardInterrupt:
        say(f"interrupted; what was judged so far is in {folder.path}", as_json=True)
        if json:
            print_json(_report(found.name, folder, None))
        return 130
    if json:
        print_json(_report(found.name, folder, answer))
    else:
        _summarise(answer, folder, baselines)
    return _EXIT[answer.outcome]


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise BudgetMalformed(text)
    return float(match[1]) * _UNITS[match[2]]


def _record(task: Any, proposer: str, budget: Any) -> RunRecord:
    import torch

    import kernelwright
    from kernelwright.core.run import RunRecord

    now = datetime.datetime.now(datetime.UTC)
    return RunRecord(
        id=f"{now:%Y-%m-%d}-{task.name}-{secrets.token_hex(2)}",
        task=task,
        proposer=proposer,
        budget=budget,
        started=now.isoformat(timespec="seconds"),
        command=("kernelwright", *sys.argv[1:]),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions={
            "kernelwright": kernelwright.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )


def _report(name: str, folder: RunFolder, answer: Answer | None) -> dict[str, Any]:
    """The object that `--json` promises."""
    report: dict[str, Any] = {"run": str(folder.path), "task": name, "outcome": "interrupted"}
    if answer is None:
        return report | {"best": None, "first_win_s": None}
    best = None
    verdict = answer.best
    if verdict is not None and verdict.speedup is not None:
        timing, correctness = verdict.outcome.timing, verdict.outcome.correctness
        gain = verdict.speedup
        best = {
            "candidate": verdict.candidate,
            "kind": verdict.candidate_kind,
            "speedup": {"low": gain.low, "mid": gain.mid, "high": gain.high},
            "baseline": timing.baseline,
            "roofline_share": timing.roofline_share,
            "error_over_budget": correctness.error_over_budget,
        }
    return report | {
        "outcome": answer.outcome,
        "best": best,
        "first_win_s": answer.first_win_s,
        "candidates": answer.candidates,
        "accepted": answer.accepted,
        "wins": answer.wins,
    }


def _summarise(answer: Answer, folder: RunFolder, baselines: tuple[Any, ...]) -> None:
    times = "  ".join(f"{arm.name} {arm.wall_ns.mid / 1e6:.2f} ms" for arm in baselines)
    print(f"\nbaselines: {times}")
    print(f"{answer.candidates} candidates, {answer.accepted} right, {answer.wins} T1 wins")
    verdict = answer.best
    if verdict is None or verdict.speedup is None:
        print("no verified win: no candidate was accepted")
    else:
        timing, correctness = verdict.outcome.timing, verdict.outcome.correctness
        head = "verified win" if verdict.win else "no verified win; the best is"
        print(
            f"{head}: {verdict.candidate_kind} {verdict.candidate}  "
            f"{ratio(verdict.speedup)} vs {timing.baseline} at T2"
        )
        print(
            f"  {100 * timing.roofline_share:.0f} % of the roofline; "
            f"{correctness.calls} outputs checked, error {correctness.error_over_budget:.2f} of "
            f"the budget"
        )
        for note in verdict.provenance.notes:
            print(f"  note: {note}")
        print(f"  source: {folder.path / 'candidates' / verdict.candidate}")
    print(f"run: {folder.path}")
    if verdict is not None:
        where = shlex.quote(str(folder.path / "candidates" / verdict.candidate))
        task = folder.record.command[2] if len(folder.record.command) > 2 else ""
        print(f"check it again: kernelwright judge {where} --task {task} --tier T2")
