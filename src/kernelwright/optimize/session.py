"""The loop on an open session, as the command line and Python start it."""

from __future__ import annotations

from kernelwright.core.run import Budget
from kernelwright.core.verdict import Tier
from kernelwright.judge import Session
from kernelwright.optimize.loop import Answer, Watcher, optimize
from kernelwright.propose import Problem, Proposer
from kernelwright.runs import RunFolder


def search(
    session: Session,
    proposer: Proposer,
    folder: RunFolder,
    *,
    budget: Budget,
    started: float,
    watch: Watcher,
    tier: Tier,
) -> Answer:
    """Keeps what the session measured in the folder, then runs `optimize` on its Task."""
    folder.append_ground(session.ground)
    problem = Problem(session.task, session.reference, session.shape, session.main.signature)
    return optimize(
        session,
        proposer,
        problem,
        folder,
        budget=budget,
        started=started,
        watch=watch,
        tier=tier,
    )
