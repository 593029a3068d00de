"""`kernelwright reverify`: the winner of a Run once more, at T3."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kernelwright.cli.judge import status_of, tell
from kernelwright.cli.options import Json, Seed
from kernelwright.cli.output import print_json, say
from kernelwright.core.errors import KernelwrightError


class NothingToVerify(KernelwrightError):
    """The Run has no win."""

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"{run}: it has no verified win. Go on with kernelwright optimize --resume {run}."
        )


def reverify(run: Path, *, seed: Seed = None, json: Json = False) -> int:
    """Verify the winner of a run again: fresh seeds, fresh processes, its times taken anew.

    The new verdict is added to the run. Exits with 0 if it is a win again.

    Args:
        run: A run folder.
    """
    from kernelwright.judge import open_session
    from kernelwright.runs import open_run
    from kernelwright.tasks.catalog import require_unchanged

    folder = open_run(run)
    best = folder.best()
    if best is None:
        raise NothingToVerify(run)
    require_unchanged(folder.record.task)
    subject = folder.load_candidate(best.candidate)
    with (
        folder.lock(),
        open_session(folder.record.task, seed=seed, on_event=partial(say, as_json=True)) as session,
    ):
        verdict = session.judge(subject, "T3")
        folder.append(verdict)
    if json:
        print_json(verdict.model_dump(mode="json") | {"win": verdict.win})
    else:
        tell(verdict)
    return status_of(verdict)
