"""Does the judge say what is true? Kernels of known extra work, judged over and over.

    python benchmarks/calibration.py [--runs 200] [--load] [--json] [--keep FILE]

A/A: a kernel against itself, so "faster by more than 5 %" is false. Planted: the baseline does
1.03 or 1.10 times the work, so the true ratio is known. Coverage is the share of 95 % intervals
that hold it. Both arms are native: neither is charged for a call from Python. `--load` repeats it
beside busy processes. Every judgement is appended to FILE (JSON lines) at once, and those already
there are not repeated: an interrupted study goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions
from planted.kernels import BODIES, planted

from kernelwright.backends import BACKENDS, BuildFailure
from kernelwright.core.verdict import Accepted, Measured, Unresolved
from kernelwright.judge import Session, open_session
from kernelwright.judge.effort import EFFORTS
from kernelwright.judge.measure import Arm, Fault, compare_arms
from kernelwright.tasks.catalog import find_task

HERE = Path(__file__).parent
PERMILLES = {"1.00": 1000, "1.03": 1030, "1.10": 1100}
OPS = {**dict.fromkeys(BODIES, tuple(PERMILLES)), "stream": ("1.00",)}
EFFORT = replace(EFFORTS["T2"], families=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="judgements per ratio of five ops")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path("build/calibration.jsonl"))
    options = parser.parse_args()
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    each = -(-options.runs // len(BODIES))
    with busy(options.load):
        for op in OPS:
            study(op, each, options)
    result = summarise(read(options.keep, loaded=options.load))
    result["conditions"] = conditions()
    print(json.dumps(result) if options.json else as_text(result))


@contextmanager
def busy(loaded: bool) -> Iterator[None]:
    """As many spinning processes as there are cores, while the block runs."""
    count = len(os.sched_getaffinity(0)) if loaded else 0
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def study(op: str, each: int, options: argparse.Namespace) -> None:
    done = [row for row in read(options.keep, loaded=options.load) if row["op"] == op]
    missing = {name: each - sum(r["truth"] == name for r in done) for name in OPS[op]}
    if max(missing.values()) <= 0:
        return
    task = find_task(str(HERE / "planted" / f"{op}.py"))
    with open_session(task) as session:
        session.dear_baselines = ()
        session.main.native_charge_ns = 0
        for name in missing:
            artefact = BACKENDS["cpp"].build(planted(op, PERMILLES[name]), session.cache)
            assert not isinstance(artefact, BuildFailure), artefact.reason
            session.main.add_baseline(name, artefact)
        session.resolution = resolution_of(session, op)
        while max(missing.values()) > 0:  # the ratios take turns: a slow hour falls on all alike
            for name in [name for name, left in missing.items() if left > 0]:
                missing[name] -= 1
                record(options, judge_once(session, op, name) | {"loaded": options.load})


def resolution_of(session: Session, op: str) -> float:
    """A/A of the planted kernel. Eager's, on inputs as small as these, is 5 times as wide."""
    station = session.main
    artefact = BACKENDS["cpp"].build(planted(op, 1000), session.cache)
    again, baseline = station.spawn("again", artefact), station.baseline("1.00")
    assert isinstance(again, Arm)
    assert isinstance(baseline, Arm)
    times = compare_arms(
        station.bench, baseline, again, draws=station.cycling(), pairs=EFFORT.pairs
    )
    again.close()
    assert not isinstance(times, Fault), times.reason
    return times.resolution


def judge_once(session: Session, op: str, name: str) -> dict[str, object]:
    session.baseline_names = (name,)
    verdict = session.judge(planted(op, 1000), "T2", effort=EFFORT)
    row: dict[str, object] = {"op": op, "truth": name, "win": verdict.win, "kind": "none"}
    match verdict.outcome:
        case Accepted(timing=Measured() | Unresolved() as timing):
            row |= {"kind": timing.kind, "interval": list(timing.interval)}
            row |= {"p_faster": timing.against[0].p_faster, "resolution": timing.resolution}
        case other:
            row["reason"] = other.model_dump(mode="json")
    return row


def record(options: argparse.Namespace, row: dict[str, object]) -> None:
    with options.keep.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(".", end="", file=sys.stderr, flush=True)


def read(path: Path, *, loaded: bool) -> list[dict]:
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    return [row for row in rows if row["loaded"] == loaded]


def summarise(rows: list[dict]) -> dict[str, object]:
    timed = [row for row in rows if "interval" in row]
    same = [row for row in timed if row["truth"] == "1.00"]
    slower = [row for row in timed if row["truth"] == "1.10"]
    coverage = {
        name: share(holds(row) for row in timed if row["truth"] == name) for name in PERMILLES
    }
    return {
        "aa_runs": len(same),
        "false_claims": sum(row["win"] for row in same),
        "coverage": coverage,
        "power_1.10": share(row["win"] or row["interval"][0] > 1.0 for row in slower),
        "wins_1.10": share(row["win"] for row in slower),
        "not_timed": len(rows) - len(timed),
        "measured_but_wrong": sum(row["kind"] == "measured" and not holds(row) for row in timed),
        "unresolved": share(row["kind"] == "unresolved" for row in timed),
    }


def holds(row: dict) -> bool:
    low, _, high = row["interval"]
    return low <= float(row["truth"]) <= high


def share(flags: Iterator[bool]) -> float | None:
    values = list(flags)
    return sum(values) / len(values) if values else None


def as_text(result: dict[str, object]) -> str:
    return "\n".join(f"{name:20} {value}" for name, value in result.items())


if __name__ == "__main__":
    main()
