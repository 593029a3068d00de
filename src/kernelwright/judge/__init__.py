"""The judge: the only maker of Verdicts.

In: a Task and Candidates. Out: `Verdict`s. Seeds, inputs, the fp64 oracle, tolerance and the clock
live here; candidate code runs only in the sandbox's workers. `verify` says whether it is right,
`measure` how fast, `pipeline` runs the gates in order, `session` keeps what several Verdicts share.
"""

from kernelwright.judge.reward import REWARDS
from kernelwright.judge.session import Session, default_cache, open_session

__all__ = ["REWARDS", "Session", "default_cache", "open_session"]
