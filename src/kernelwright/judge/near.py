"""A win must not be known to the timed shape alone: a few per cent away it is timed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernelwright.backends import Artefact
from kernelwright.core.verdict import Rejected
from kernelwright.judge.effort import Effort
from kernelwright.judge.measure import Arm, describe
from kernelwright.judge.station import EAGER, BaselineBroke, Station
from kernelwright.judge.trial import Checks, Trial
from kernelwright.sandbox import Failure

_PAIRS = 8
_LOSS = 3.0
"""How much of a win may be lost: vectors that no longer fit cost an honest kernel up to half."""


def loses_near(
    station: Station,
    built: Artefact,
    won: float,
    effort: Effort,
    *,
    trial: Callable[[Station, Arm, Checks], Trial],
) -> Rejected | None:
    """Times a Candidate against eager near the shape at which it won.

    Args:
        station: at a shape a little smaller than the timed one.
        built: the Candidate's artefact.
        won: low end of its gain over eager at the timed shape.
        effort: of the tier; fewer pairs are taken.
        trial: makes the trial of an arm.

    Raises:
        BaselineBroke: eager does not run there.
    """
    fault = station.settle()
    eager = station.baseline(EAGER)
    if fault is not None or not isinstance(eager, Arm):
        raise BaselineBroke(f"eager fails at shape {station.label}")
    arm = station.spawn("candidate", built)
    if isinstance(arm, Failure):
        return Rejected(stage="load", reason=describe(arm))
    few = replace(effort, pairs=_PAIRS, most_pairs=_PAIRS, look_share=0.0)
    try:
        trying = trial(station, arm, Checks())
        times = trying.warm() or trying.time_against(eager, lambda _: station.fresh("nominal"), few)
    finally:
        arm.close()
    if isinstance(times, Rejected):
        return times
    gain = times.interval.high
    if gain * _LOSS >= won:
        return None
    reason = (
        f"at shape {station.label} it is at most {gain:.2f} times as fast as eager, at the timed "
        f"one at least {won:.2f} times: it is made for that one alone"
    )
    return Rejected(stage="audit", reason=reason)
