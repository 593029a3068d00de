"""One Candidate on one station: calls, checks, times. Pure bookkeeping of what the gates found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelwright.core.verdict import (
    WIN_THRESHOLD,
    Against,
    CheckedCall,
    Correctness,
    OracleStrength,
    Rejected,
)
from kernelwright.judge.effort import Effort
from kernelwright.judge.libraries import LibraryTrace
from kernelwright.judge.measure import (
    Arm,
    Draw,
    Fault,
    Occupancy,
    PairedTimes,
    Sample,
    take_pair,
)
from kernelwright.judge.station import BaselineBroke, Station
from kernelwright.judge.verify.budget import Comparison
from kernelwright.judge.verify.compare import compare
from kernelwright.judge.verify.loose import compare_loosely
from kernelwright.sandbox import Watch
from kernelwright.tasks.draw import COHERENT

_LOOKS_PER_CALL = 4
_FEWEST = 12
"""Pairs before a baseline may be found not to bind, and between two looks."""


DrawSource = Callable[[bool], Draw]


@dataclass(slots=True)
class Checks:
    """What has been compared so far."""

    checked: list[CheckedCall] = field(default_factory=list)
    unchecked: int = 0
    shapes: list[str] = field(default_factory=list)
    families: set[str] = field(default_factory=set)
    error_over_reference: float = 0.0

    def correctness(self, oracle: OracleStrength) -> Correctness:
        """The record for the Verdict."""
        return Correctness(
            calls=len(self.checked),
            unchecked_calls=self.unchecked,
            shapes=tuple(self.shapes),
            families=tuple(sorted(self.families)),
            weight_sets=len({(one.shape, one.weights) for one in self.checked}),
            error_over_budget=max((one.error_over_budget for one in self.checked), default=0.0),
            error_over_reference=self.error_over_reference,
            oracle=oracle,
            checked=tuple(self.checked),
        )


class Trial:
    """Runs one Candidate's arm at one station and adds to shared `Checks`."""

    def __init__(
        self,
        station: Station,
        arm: Arm,
        checks: Checks,
        *,
        precision: str,
        rng: np.random.Generator,
    ) -> None:
        self.station, self.arm, self.checks = station, arm, checks
        self.trace = LibraryTrace()
        self._precision = precision
        self._rng = rng
        if station.label not in checks.shapes:
            checks.shapes.append(station.label)

    def check_families(self, draws: Iterable[Draw]) -> Rejected | None:
        """One checked call per draw: of each family one, with its own redraw of the parameters.

        A family whose truth is not finite is outside the Task's domain and is passed over; its call
        runs all the same, so that no worker learns which those are before it has replied.
        """
        for one in draws:
            sample = self.station.bench.run(self.arm, one, keep=True)
            refused = self._fault(sample)
            if refused is None and self.station.applies(one):
                refused = self._check(one, sample)
            if refused is not None:
                return refused
        return None

    def warm(self) -> Rejected | None:
        """Lets the worker's heap settle; to the worker these calls look like any other."""
        calls = self.station.bench.warm(self.arm, self.station.decoy)
        if isinstance(calls, Fault):
            return self._fault(calls)
        self.checks.unchecked += calls
        return None

    def time_against(
        self, baseline: Arm, source: DrawSource, effort: Effort, *, bar: float = math.inf
    ) -> PairedTimes | Rejected:
        """AB/BA pairs; a secret share of the calls is compared in full.

        Args:
            baseline: a warm worker.
            source: of inputs new to the Candidate's worker; told whether the call is compared.
            effort: how many pairs, and how many of them are compared.
            bar: gain over a faster baseline: once this one's interval lies above it, it does not
                bind and needs no more pairs.
        """
        times = PairedTimes(baseline.name)
        occupancy = Occupancy(lambda: self._own_ns(baseline))
        checked_any = False
        while self._wants_more(times, effort, bar):
            last = len(times.pairs) == effort.pairs - 1
            keep = self._rng.random() < effort.check_share or (last and not checked_any)
            keep &= self.station.defences.timed_checks
            checked_any |= keep
            refused = self._one_pair(times, baseline, source(keep), keep=keep)
            if refused is None and self._rng.random() < effort.look_share:
                refused = self._look(source(False), times.pairs[-1].candidate.wall_ns)
            if refused is not None:
                return refused
        times.foreign_cores = occupancy.foreign_cores()
        return times

    def _own_ns(self, baseline: Arm) -> int:
        """CPU time of the judge and the two arms; every other worker stands still."""
        return time.process_time_ns() + self.arm.worker.cpu_ns() + baseline.worker.cpu_ns()

    def _wants_more(self, times: PairedTimes, effort: Effort, bar: float) -> bool:
        taken = len(times.pairs)
        if taken >= _FEWEST and taken % _FEWEST == 0 and times.interval.low > bar:
            return False
        if taken == 0 or taken % effort.pairs:
            return True
        return taken < effort.most_pairs and times.resolution > effort.width

    def _one_pair(
        self, times: PairedTimes, baseline: Arm, one: Draw, *, keep: bool
    ) -> Rejected | None:
        pair = take_pair(
            self.station.bench,
            baseline,
            self.arm,
            draw=one,
            candidate_first=bool(len(times.pairs) % 2),
            keep=keep,
        )
        if isinstance(pair, Fault):
            if pair.stage == "baseline":
                raise BaselineBroke(pair.reason)
            return self._fault(pair)
        times.pairs.append(pair)
        self.checks.unchecked += not keep
        if keep and baseline.name == "eager":
            one.reference = pair.baseline.outputs
        return self._check(one, pair.candidate) if keep else None

    def _look(self, one: Draw, usual_ns: int) -> Rejected | None:
        """One more call, like any other to the worker, that is stopped at random moments."""
        moments = np.sort(self._rng.uniform(0.0, usual_ns / 1e9, _LOOKS_PER_CALL))
        delays = np.diff(moments, prepend=0.0)
        watch = Watch(tuple(delays.tolist()), self.trace.see)
        self.checks.unchecked += 1
        return self._fault(self.station.bench.run(self.arm, one, keep=False, watch=watch))

    def audit(self, impossible_ns: float, fastest_ns: float) -> Rejected | None:
        """Facts about the worker's behaviour that no honest kernel shows."""
        if self.arm.worker.children():
            return Rejected(stage="audit", reason="the candidate started a process")
        if fastest_ns < impossible_ns:
            return Rejected(
                stage="audit",
                reason=f"{fastest_ns / 1e3:.1f} us is less than writing the outputs can take",
            )
        banned = self.station.reference.forbidden_calls
        reason = self.trace.forbidden(banned) if self.station.defences.library_policy else None
        return None if reason is None else Rejected(stage="audit", reason=reason)

    def _fault(self, sample: Sample | Fault) -> Rejected | None:
        if isinstance(sample, Fault):
            stage = "audit" if sample.stage == "audit" else "verify"
            return Rejected(stage=stage, reason=sample.reason)
        return None

    def _check(self, one: Draw, sample: Sample | Fault) -> Rejected | None:
        assert isinstance(sample, Sample)
        assert sample.outputs is not None
        truth = self.station.truth(one)
        reference = self.station.reference_outputs(one)
        if isinstance(reference, Fault):
            raise BaselineBroke(reference.reason)
        found = self._compare(one, sample.outputs, truth, reference)
        checks = self.checks
        checks.checked.append(
            CheckedCall(
                shape=self.station.label,
                family=one.family,
                weights=one.weights,
                error_over_budget=found.error_over_budget,
            )
        )
        if found.ok and self.station.is_evidence(one, self._precision):
            checks.families.add(one.family)
        checks.error_over_reference = max(checks.error_over_reference, found.error_over_reference)
        if found.ok:
            return None
        where = f"family {one.family}, shape {self.station.label}"
        return Rejected(stage="verify", reason=f"{found.reason} ({where})")

    def _compare(
        self, one: Draw, outputs: list[Any], truth: list[Any], reference: list[Any]
    ) -> Comparison:
        if not self.station.defences.error_budget:
            return compare_loosely(outputs, truth)
        return compare(
            outputs,
            truth,
            reference,
            precision=self._precision,
            sensitivity=lambda: self.station.oracle.sensitivity(
                one.values, truth, coherent=one.family in COHERENT
            ),
            yardstick=self.station.yardstick(one),
        )


def as_against(times: PairedTimes) -> Against:
    """The record of one baseline."""
    return Against(
        baseline=times.baseline,
        speedup=times.interval,
        baseline_ns=times.baseline_ns(),
        candidate_ns=times.candidate_ns(),
        pairs=len(times.pairs),
        p_faster=times.p_faster(WIN_THRESHOLD),
        samples_ns=times.samples_ns,
    )


def slowest_gain(all_times: list[PairedTimes]) -> PairedTimes:
    """The binding baseline: the one the Candidate gains least over."""
    return min(all_times, key=lambda times: math.log(times.interval.mid))
