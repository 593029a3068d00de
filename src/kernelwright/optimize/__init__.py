"""The loop: Proposer x judge x Run x Budget.

In: a session, a Proposer, a run folder and a Budget. Out: an `Answer`; every Verdict is on disk
before the next Candidate is judged. Candidates are screened at T1; only a Verdict at T2 or T3, on
inputs that no earlier call has seen, makes the Run a win.
"""

from kernelwright.optimize.loop import Answer, Watcher, optimize
from kernelwright.optimize.session import search

__all__ = ["Answer", "Watcher", "optimize", "search"]
