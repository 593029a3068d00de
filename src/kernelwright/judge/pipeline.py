"""Build, load, verify, measure, audit: the only maker of Verdicts."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from kernelwright.backends import (
    BACKENDS,
    Artefact,
    BuildFailure,
    NativeArtefact,
    PythonArtefact,
)
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import SandboxBroke
from kernelwright.core.verdict import (
    WIN_THRESHOLD,
    Accepted,
    Inconclusive,
    Measured,
    NotTimed,
    Outcome,
    Rejected,
    Tier,
    Timing,
    Unresolved,
    Verdict,
)
from kernelwright.judge.effort import EFFORTS, Effort
from kernelwright.judge.measure import Arm, Draw, PairedTimes, describe
from kernelwright.judge.near import loses_near
from kernelwright.judge.station import EAGER, BaselineBroke, Station
from kernelwright.judge.trial import Checks, DrawSource, Trial, as_against, slowest_gain
from kernelwright.sandbox import Failure, ZygoteDied

_BUSY_CORES = 0.5
"""From here on no win is believed: one thread that shares its core makes a parallel loop wait."""
_LAUNCH_BOUND = 20
"""A call shorter than this many no-op round trips is labelled launch-bound."""


class Pipeline:
    """Judges Candidates in one session. See `Session.judge`."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._rng = np.random.Generator(np.random.Philox(key=session.secret()))

    def judge(self, candidate: Candidate, tier: Tier, effort: Effort | None = None) -> Verdict:
        """Runs the gates in order; the first that says no ends it."""
        wall, cpu = time.monotonic(), _cpu_s()
        notes: list[str] = list(self._session.notes)
        if effort is not None:
            notes.append(f"other effort than {tier}'s own: {effort}")
        try:
            outcome = self._gates(candidate, effort or EFFORTS[tier], notes)
        except BaselineBroke as error:
            outcome = Inconclusive(reason=f"a baseline failed: {error}")
        except ZygoteDied as error:
            outcome = Inconclusive(reason=f"the worker process died: {error}")
        except SandboxBroke as error:
            outcome = Inconclusive(reason=str(error))
        return Verdict(
            task=self._session.task.name,
            candidate=candidate.id,
            candidate_kind=candidate.kind,
            tier=tier,
            outcome=outcome,
            provenance=self._session.provenance(
                tier,
                outcome,
                candidate.kind,
                notes=tuple(notes),
                usual_effort=effort is None or effort == EFFORTS[tier],
            ),
            cost_cpu_s=_cpu_s() - cpu,
            wall_s=time.monotonic() - wall,
        )

    def _gates(self, candidate: Candidate, effort: Effort, notes: list[str]) -> Outcome:
        backend, device = BACKENDS[candidate.kind], self._session.task.device
        if device not in backend.devices:
            where = " or ".join(backend.devices)
            reason = f"a {candidate.kind} candidate runs on {where}, this task is on {device}"
            return Rejected(stage="build", reason=reason)
        built = backend.build(candidate, self._session.cache)
        if isinstance(built, BuildFailure):
            return Rejected(stage="build", reason=built.reason)
        if isinstance(built, PythonArtefact):
            notes.extend(built.notes)
        if effort.pairs == 0:
            return self._load_only(built)
        accepted: list[Accepted] = []
        for round_ in range(effort.rounds):
            if round_ > 0:
                self._session.renew()
            outcome = self._one_round(built, effort)
            if not isinstance(outcome, Accepted):
                return outcome
            accepted.append(outcome)
        return min(accepted, key=_claimed)

    def _load_only(self, built: Artefact) -> Outcome:
        arm = self._session.main.spawn("candidate", built)
        if isinstance(arm, Failure):
            return Rejected(stage="load", reason=describe(arm))
        arm.close()
        return Accepted(correctness=Checks().correctness("unknown"), timing=NotTimed())

    def _one_round(self, built: Artefact, effort: Effort) -> Outcome:
        station = self._session.main
        checks = Checks()
        for other in self._session.other_stations(effort.shapes):
            try:
                refused = self._check_fenced(other, built, checks, other.families)
            finally:
                other.close()
            if refused is not None:
                return refused
        if effort.all_baselines and isinstance(built, NativeArtefact):
            refused = self._check_fenced(station, built, checks, ["nominal"])
            if refused is not None:
                return refused
        arm = station.spawn("candidate", built)
        if isinstance(arm, Failure):
            return Rejected(stage="load", reason=describe(arm))
        try:
            outcome = self._at_main(arm, checks, effort)
        finally:
            started = arm.close()
        if isinstance(outcome, Accepted) and effort.all_baselines:
            outcome = self._check_near(built, outcome, effort)
        if started and isinstance(outcome, Accepted):
            return Rejected(stage="audit", reason="the candidate started a process")
        return outcome

    def _check_fenced(
        self, station: Station, built: Artefact, checks: Checks, families: Iterable[str]
    ) -> Rejected | None:
        """In a worker that is never timed, so that its buffers can end at a fence."""
        arm = station.spawn("candidate", built, fenced=True)
        if isinstance(arm, Failure):
            return Rejected(stage="load", reason=describe(arm))
        try:
            draws = (station.fresh(family) for family in families)
            refused = self._trial(station, arm, checks).check_families(draws)
        finally:
            arm.close()
        if refused is not None and refused.reason.startswith("crashed"):
            hint = "here every buffer ends at a fence: look for an index past the end"
            return refused.model_copy(update={"reason": f"{refused.reason} ({hint})"})
        return refused

    def _check_near(self, built: Artefact, accepted: Accepted, effort: Effort) -> Outcome:
        won = _gain_over_eager(accepted)
        claims = _claimed(accepted) > WIN_THRESHOLD
        station = self._session.near_station() if claims and won else None
        if station is None:
            return accepted
        try:
            return loses_near(station, built, won, effort, trial=self._trial) or accepted
        finally:
            station.close()

    def _at_main(self, arm: Arm, checks: Checks, effort: Effort) -> Outcome:
        session, station = self._session, self._session.main
        trial = self._trial(station, arm, checks)
        refused = trial.check_families(self._families(effort)) or trial.warm()
        if refused is not None:
            return refused
        measured = self._time(trial, self._source(effort), effort)
        if isinstance(measured, Rejected):
            return measured
        fastest_ns = min(t.candidate_ns().low for t in measured)
        refused = trial.audit(session.roofline.impossible_ns, fastest_ns)
        if refused is not None:
            return refused
        busy = max(times.foreign_cores for times in measured)
        claims = slowest_gain(measured).interval.low > WIN_THRESHOLD
        if effort.all_baselines and claims and busy > _BUSY_CORES:
            return Inconclusive(
                reason=f"other processes kept {busy:.1f} cores of this machine busy while it was "
                "timed: a kernel on fewer threads than its baseline gains by that. Stop them, or "
                "give kernelwright cores of its own with taskset"
            )
        return Accepted(
            correctness=checks.correctness(session.oracle_strength),
            timing=self._timing(measured),
            libraries=trial.trace.result(),
        )

    def _time(
        self, trial: Trial, source: DrawSource, effort: Effort
    ) -> list[PairedTimes] | Rejected:
        session, station = self._session, self._session.main
        names = session.quickest_first if effort.all_baselines else (session.fastest,)
        done: list[PairedTimes] = []
        dear = session.dear_baselines if effort.all_baselines else ()
        for name in chain(names, dear):
            if name in dear and slowest_gain(done).interval.low <= WIN_THRESHOLD:
                break  # no win is claimed: the dear baseline can only lower it
            for baseline in station.baselines(name):
                bar = slowest_gain(done).interval.mid if done else math.inf
                times = trial.time_against(baseline, source, effort, bar=bar)
                if isinstance(times, Rejected):
                    return times
                done.append(times)
        if not done:
            raise BaselineBroke("none of the baselines runs")
        return done

    def _timing(self, measured: list[PairedTimes]) -> Timing:
        binding = slowest_gain(measured)
        rest = [times for times in measured if times is not binding]
        candidate = binding.candidate_ns()
        session = self._session
        interval = binding.interval
        facts = {
            "interval": interval,
            "baseline": binding.baseline,
            "against": tuple(as_against(times) for times in (binding, *rest)),
            "launch_bound": candidate.mid < _LAUNCH_BOUND * session.no_op_p95_ns,
            "roofline_share": min(session.roofline.floor_ns / candidate.mid, 1.0),
            "resolution": session.resolution,
        }
        below = interval.mid < 1 + session.resolution and interval.mid > 1 / (
            1 + session.resolution
        )
        if below or interval.low <= 1.0 <= interval.high:
            return Unresolved(**facts)
        return Measured(p_faster=binding.p_faster(WIN_THRESHOLD), **facts)

    def _families(self, effort: Effort) -> Iterable[Draw]:
        station = self._session.main
        if not effort.all_baselines:
            return station.pool.screens(effort.families)
        names = self._rng.permutation(station.families)[: effort.families]
        return (station.fresh(str(name)) for name in names)

    def _source(self, effort: Effort) -> DrawSource:
        """A screening reuses draws; a rewarded or certified claim stands on new ones alone."""
        station = self._session.main
        if effort.all_baselines:
            return lambda _: station.fresh("nominal")
        timed, checked = station.pool.timed(), station.pool.checked()
        return lambda keep: next(checked if keep else timed)

    def _trial(self, station: Station, arm: Arm, checks: Checks) -> Trial:
        return Trial(station, arm, checks, precision=self._session.task.precision, rng=self._rng)


def _claimed(outcome: Accepted) -> float:
    match outcome.timing:
        case Measured(interval=gain) | Unresolved(interval=gain):
            return gain.low
        case _:
            return 0.0


def _gain_over_eager(accepted: Accepted) -> float:
    """Low end; another baseline may bind at the timed shape and be another one elsewhere."""
    match accepted.timing:
        case Measured(against=several) | Unresolved(against=several):
            return next((one.speedup.low for one in several if one.baseline == EAGER), 0.0)
        case _:
            return 0.0


def _cpu_s() -> float:
    """CPU time of this process and of the children it has reaped, seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
