"""`kernelwright judge`: one Candidate, one Verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from kernelwright.cli.output import print_json, say, summarise


def judge(
    candidate: Path,
    *,
    task: str,
    tier: Literal["T0", "T1", "T2", "T3"] = "T2",
    input: Annotated[tuple[str, ...], Parameter(name="--input")] = (),  # noqa: A002
    kernelbench: Path | None = None,
    seed: int | None = None,
    json: bool = False,
) -> int:
    """Judge one candidate: right or wrong, and how fast against the best baseline.

    Parameters
    ----------
    candidate
        A folder with candidate.json, or a .cpp, .py (ModelNew) or .json (graph) file.
    task
        What it replaces; see `kernelwright tasks`.
    tier
        T0 builds, T1 screens, T2 rewards, T3 certifies.
    input
        For tasks that name a class: shape and dtype, such as 4096x1024:float32.
    kernelbench
        Folder that holds level1 to level4; default $KERNELBENCH_ROOT.
    seed
        Fixes all draws, to repeat a Verdict; a claim needs a secret one.
    json
        Print the Verdict as one JSON object.
    """
    from kernelwright.core.verdict import Accepted, Inconclusive, NotTimed
    from kernelwright.judge import open_session
    from kernelwright.runs import read_candidate
    from kernelwright.tasks.catalog import find_task

    subject = read_candidate(candidate)
    found = find_task(task, inputs=input, kernelbench=kernelbench)

    def tell(event: str) -> None:
        say(event, as_json=True)

    with open_session(found, seed=seed, on_event=tell) as session:
        verdict = session.judge(subject, tier)
    if json:
        print_json(verdict.model_dump(mode="json") | {"win": verdict.win})
    else:
        print(f"{found.name} {subject.kind} {subject.id} {tier}: {summarise(verdict)}")
        for note in verdict.provenance.notes:
            print(f"  note: {note}")
    match verdict.outcome:
        case Inconclusive():
            return 3
        case Accepted(timing=NotTimed()):
            return 0
        case _:
            return 0 if verdict.win else 1
