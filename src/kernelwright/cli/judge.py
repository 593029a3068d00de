"""`kernelwright judge`: one Candidate, one Verdict."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelwright.cli.options import Device, Inputs, Json, KernelBench, Seed
from kernelwright.cli.output import Exit, print_json, say
from kernelwright.report.words import summarise

if TYPE_CHECKING:
    from kernelwright.core.verdict import Verdict


def judge(
    candidate: Path,
    *,
    task: str,
    tier: Literal["T0", "T1", "T2", "T3"] = "T2",
    input: Inputs = (),  # noqa: A002
    kernelbench: KernelBench = None,
    device: Device = "cpu",
    seed: Seed = None,
    json: Json = False,
) -> int:
    """Judge one candidate: right or wrong, and how fast against the best baseline.

    Exits with 0 for a win (at T0: when it builds and loads), with 1 for anything less.

    Args:
        candidate: A folder with candidate.json, or one file: .cpp, .cu, .py (ModelNew), .json
            (graph).
        task: What it replaces; `kernelwright tasks --help` lists the forms.
        tier: T0 builds, T1 screens, T2 rewards, T3 certifies.
    """
    from kernelwright.judge import open_session
    from kernelwright.runs import read_candidate
    from kernelwright.tasks.catalog import find_task

    subject = read_candidate(candidate)
    found = find_task(task, inputs=input, kernelbench=kernelbench, device=device)
    with open_session(found, seed=seed, on_event=partial(say, as_json=True)) as session:
        verdict = session.judge(subject, tier)
    if json:
        print_json(verdict.model_dump(mode="json") | {"win": verdict.win})
    else:
        tell(verdict)
    return status_of(verdict)


def tell(verdict: Verdict) -> None:
    """A Verdict for people: what was found, and the notes that belong to it."""
    subject = f"{verdict.candidate_kind} {verdict.candidate}"
    say(f"{verdict.task}  {subject}  {verdict.tier}: {summarise(verdict)}")
    for note in verdict.provenance.notes:
        say(f"  note: {note}")


def status_of(verdict: Verdict) -> Exit:
    """0 for a win, or where nothing was to be timed; 3 where the machine is to blame; else 1."""
    from kernelwright.core.verdict import Accepted, Inconclusive, NotTimed

    match verdict.outcome:
        case Inconclusive():
            return Exit.INCONCLUSIVE
        case Accepted(timing=NotTimed()):
            return Exit.DONE
        case _:
            return Exit.DONE if verdict.win else Exit.NO_WIN
