"""Hypothesis strategies and small examples of every record."""

from __future__ import annotations

from hypothesis import strategies as st

from kernelwright.core import (
    Accepted,
    Against,
    ArmTime,
    Budget,
    BuiltinOrigin,
    Candidate,
    CheckedCall,
    Correctness,
    Ground,
    Inconclusive,
    Interval,
    Measured,
    NotTimed,
    Provenance,
    Rejected,
    RunRecord,
    SourceFile,
    Task,
    Unresolved,
    Verdict,
)

_ratio = st.floats(min_value=1e-3, max_value=1e3)
_share = st.floats(min_value=0.0, max_value=1.0)
_error = st.floats(min_value=0.0, allow_infinity=True, allow_nan=False)
_text = st.text(max_size=40)
intervals = st.tuples(_ratio, _ratio, _ratio).map(lambda three: Interval(*sorted(three)))
file_names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,20}", fullmatch=True)
sources = st.builds(SourceFile, name=file_names, text=st.text(max_size=200))
candidates = st.builds(
    Candidate,
    kind=st.sampled_from(["cpp", "graph", "python"]),
    sources=st.lists(sources, min_size=1, max_size=3, unique_by=lambda s: s.name).map(tuple),
    idea=_text,
    parent=st.none() | st.just("0123456789ab"),
)
_against = st.builds(
    Against,
    baseline=_text,
    speedup=intervals,
    baseline_ns=intervals,
    candidate_ns=intervals,
    pairs=st.integers(1, 1000),
    p_faster=_share,
    samples_ns=st.lists(st.tuples(st.integers(1), st.integers(1)), max_size=4).map(tuple),
)
_timed = {
    "interval": intervals,
    "baseline": _text,
    "resolution": _share,
    "against": st.lists(_against, max_size=2).map(tuple),
    "launch_bound": st.booleans(),
    "roofline_share": st.none() | _share,
}
_timings = (
    st.builds(Measured, p_faster=_share, **_timed)
    | st.builds(Unresolved, **_timed)
    | st.builds(NotTimed)
)
_checked = st.builds(
    CheckedCall,
    shape=_text,
    family=_text,
    weights=st.integers(0, 9),
    error_over_budget=_error,
)
_correctness = st.builds(
    Correctness,
    calls=st.integers(0, 100),
    shapes=st.lists(_text, max_size=3).map(tuple),
    families=st.lists(_text, max_size=3).map(tuple),
    weight_sets=st.integers(0, 9),
    error_over_budget=_error,
    error_over_reference=_error,
    oracle=st.sampled_from(["strong", "weak", "unknown"]),
    checked=st.lists(_checked, max_size=3).map(tuple),
)
outcomes = (
    st.builds(
        Rejected,
        stage=st.sampled_from(["build", "load", "verify", "audit", "measure"]),
        reason=st.text(max_size=200),
    )
    | st.builds(Accepted, correctness=_correctness, timing=_timings)
    | st.builds(Inconclusive, reason=_text)
)
_provenances = st.builds(
    Provenance,
    sandbox=st.sampled_from("ABCD"),
    certified=st.booleans(),
    threads=st.integers(1, 64),
    notes=st.lists(_text, max_size=3).map(tuple),
)
verdicts = st.builds(
    Verdict,
    task=_text,
    candidate=_text,
    candidate_kind=_text,
    tier=st.sampled_from(["T0", "T1", "T2", "T3"]),
    outcome=outcomes,
    provenance=_provenances,
    cost_cpu_s=st.floats(0, 1e6),
    wall_s=st.floats(0, 1e6),
)

PROVENANCE = Provenance(
    sandbox="D",
    certified=False,
    precision="native",
    kernelwright="0",
    torch="2",
    compiler="g++",
    machine="m",
    threads=2,
    seed_commitment="0" * 64,
)
GROUND = Ground(
    task="softmax",
    shape="4x8",
    baselines=(
        ArmTime(name="compile", wall_ns=Interval(0.9e6, 1e6, 1.1e6)),
        ArmTime(name="eager", wall_ns=Interval(1.9e6, 2e6, 2.1e6)),
    ),
    resolution=0.02,
    bytes_moved=256,
    flops=0,
    bytes_per_s=1e10,
    flops_per_s=1e11,
    floor_ns=25.6,
)
CORRECTNESS = Correctness(
    calls=9,
    shapes=("rows=3",),
    families=("nominal",),
    weight_sets=1,
    error_over_budget=0.25,
    error_over_reference=1.0,
    oracle="strong",
)


def run_record(name: str = "softmax", identity: str = "2026-01-02-softmax-00ff00") -> RunRecord:
    """The head of a Run over a built-in Task."""
    return RunRecord(
        id=identity,
        task=Task(name=name, origin=BuiltinOrigin(name=name), source_hash="0" * 64),
        proposer="search",
        budget=Budget(),
        started="2026-01-02T03:04:05+00:00",
        command=("kernelwright", "optimize", name),
        machine="x86_64",
        versions={"torch": "2"},
    )


def candidate(text: str = "int x;", idea: str = "an idea") -> Candidate:
    """A cpp Candidate; another text is another identity."""
    return Candidate(kind="cpp", sources=(SourceFile(name="k.cpp", text=text),), idea=idea)


def timed(
    low: float, mid: float, high: float, *, tier: str = "T1", name: str = "c", p: float = 0.001
) -> Verdict:
    """An Accepted Verdict with that interval."""
    gain = Interval(low, mid, high)
    timing = Measured(
        interval=gain,
        baseline="eager",
        p_faster=p,
        resolution=0.02,
        against=(),
        launch_bound=False,
        roofline_share=0.5,
    )
    return verdict(Accepted(correctness=CORRECTNESS, timing=timing), tier=tier, name=name)


def verdict(outcome: object, *, tier: str = "T1", name: str = "c") -> Verdict:
    """A Verdict with that outcome."""
    return Verdict(
        task="softmax",
        candidate=name,
        candidate_kind="cpp",
        tier=tier,
        outcome=outcome,
        provenance=PROVENANCE,
        cost_cpu_s=1.0,
        wall_s=1.0,
    )
