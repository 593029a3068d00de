"""Verdict: the judge's statement about one Candidate. Right and fast are separate facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from kernelwright.core.record import Interval, Record

Tier = Literal["T0", "T1", "T2", "T3"]
OracleStrength = Literal["strong", "weak", "unknown"]
Stage = Literal["build", "load", "verify", "audit", "measure"]

WIN_THRESHOLD = 1.05
"""A win needs the whole interval above this ratio (CUDA Agent's 5 %, arXiv 2602.24286)."""


class CheckedCall(Record):
    """One call whose outputs were compared in full."""

    shape: str
    family: str
    weights: int
    """Which redraw of parameters and statistics it ran on."""
    error_over_budget: float


class Correctness(Record):
    """What was checked and how much of the error budget was used."""

    calls: int
    """Calls whose outputs were compared in full with the fp64 oracle."""
    unchecked_calls: int = 0
    """Calls a secret draw left out: cheating in a share c of all stays unseen with (1-c)^calls."""
    shapes: tuple[str, ...]
    families: tuple[str, ...]
    weight_sets: int
    error_over_budget: float
    """Largest error over its budget; at most 1."""
    error_over_reference: float
    """Largest RMS error over the reference's own on the same call; inf where that is 0."""
    oracle: OracleStrength
    """`weak`: some output that ignores the work would have passed this Task's tolerance."""
    checked: tuple[CheckedCall, ...] = ()
    """Every compared call, in order."""


class ArmTime(Record):
    """Wall time of one side of the comparison, in nanoseconds, as median and 95 % bounds."""

    name: str
    wall_ns: Interval


def block_log_ratios(samples_ns: Sequence[tuple[int, int]]) -> list[float]:
    """One ln(baseline / candidate) per block of an AB and a BA pair, in order.

    Args:
        samples_ns: wall times per pair, baseline then candidate; a single pair is its own block.
    """
    single = [math.log(baseline / candidate) for baseline, candidate in samples_ns]
    blocks = zip(single[::2], single[1::2], strict=False)
    return [(first + second) / 2 for first, second in blocks] or single


class Against(Record):
    """The Candidate against one correct baseline: adjacent pairs on the same fresh inputs."""

    baseline: str
    speedup: Interval
    """Baseline time over candidate time."""
    baseline_ns: Interval
    candidate_ns: Interval
    pairs: int
    p_faster: float
    """Sign-test level at which "faster by more than 5 %" holds."""
    samples_ns: tuple[tuple[int, int], ...] = ()
    """Every pair's wall times, baseline then candidate; pairs 2k and 2k + 1 ran AB and BA."""


class NotTimed(Record):
    """The tier asked for no timing."""

    kind: Literal["not_timed"] = "not_timed"


class Measured(Record):
    """A speed-up that the machine can resolve. `interval` is baseline time over candidate time."""

    kind: Literal["measured"] = "measured"
    interval: Interval
    baseline: str
    """The fastest correct baseline, the one `interval` is against."""
    p_faster: float
    """Sign-test level at which "faster by more than 5 %" than that baseline holds."""
    resolution: float
    """Half-width of the reference timed against itself, as a ratio minus 1."""
    against: tuple[Against, ...]
    """Every correct baseline, the binding one first."""
    launch_bound: bool
    roofline_share: float | None = None
    """Time the bytes and flops need at this machine's measured peaks over the candidate's time."""


class Unresolved(Record):
    """The difference is below what this machine can tell apart."""

    kind: Literal["unresolved"] = "unresolved"
    resolution: float
    interval: Interval
    baseline: str
    against: tuple[Against, ...]
    launch_bound: bool
    roofline_share: float | None = None


Timing = Annotated[Measured | Unresolved | NotTimed, Field(discriminator="kind")]


class Share(Record):
    """A part of a whole; `share` is from 0 to 1."""

    name: str
    share: float


class LibraryUse(Record):
    """Which code a Candidate ran, by looks into calls that were not timed."""

    looks: int
    """Moments at which its worker was stopped while it computed."""
    objects: tuple[Share, ...]
    """Files that the code was in, of all threads that computed at those moments."""
    functions: tuple[Share, ...]
    """Likewise, where the file names them."""
    operators: tuple[Share, ...]
    """PyTorch operators under way, of the looks; one may be inside another."""


class Rejected(Record):
    """The first gate that said no; later gates did not run."""

    kind: Literal["rejected"] = "rejected"
    stage: Stage
    reason: str


class Accepted(Record):
    """The outputs are right; how fast is a fact of its own."""

    kind: Literal["accepted"] = "accepted"
    correctness: Correctness
    timing: Timing
    libraries: LibraryUse | None = None
    """What it called; None where the tier does not look."""


class Inconclusive(Record):
    """The machine's fault, not the Candidate's: never rewarded, never punished."""

    kind: Literal["inconclusive"] = "inconclusive"
    reason: str


Outcome = Annotated[Rejected | Accepted | Inconclusive, Field(discriminator="kind")]


class Provenance(Record):
    """Under which conditions the Verdict was made."""

    sandbox: str
    """Sandbox tier: A to D. D is a plain process."""
    certified: bool
    """Only a T3 Verdict from a jailed worker certifies anything."""
    precision: str
    kernelwright: str
    torch: str
    compiler: str
    machine: str
    threads: int
    seed_commitment: str
    """SHA-256 of the secret seed all inputs were drawn from."""
    defences_off: tuple[str, ...] = ()
    """Layers of the judge that were left off for a study: such a Verdict is worth no reward."""
    notes: tuple[str, ...] = ()
    """Labels a reader must know: one shape only, slow path, weak oracle, library calls."""


class Verdict(Record):
    """What the judge says about a Candidate for a Task at a tier."""

    task: str
    candidate: str
    candidate_kind: str
    tier: Tier
    outcome: Outcome
    provenance: Provenance
    cost_cpu_s: float
    """CPU seconds of the judge and every worker spent on this Verdict."""
    wall_s: float

    @property
    def win(self) -> bool:
        """Accepted, with the whole interval above 1.05 and the sign test at 1 %."""
        match self.outcome:
            case Accepted(timing=Measured(interval=gain, p_faster=p)):
                return gain.low > WIN_THRESHOLD and p <= 0.01
            case _:
                return False

    @property
    def speedup(self) -> Interval | None:
        """Baseline over candidate, where it was timed."""
        match self.outcome:
            case Accepted(timing=Measured(interval=gain) | Unresolved(interval=gain)):
                return gain
            case _:
                return None
