"""What a Verdict costs.

    python benchmarks/judge_cost.py [--task softmax] [--json]

`t1_cpu_s`: CPU seconds of a T1 Verdict on a `cpp` Candidate from source, built anew, with the
baselines warm, less what the baseline's own calls took; the median of several Candidates that
differ in one comment. The first Verdicts of a session also draw the inputs that the later ones
share: `t1_cpu_s_first` lists those. `worker_ready_ms`: from the request to a frozen worker that
has loaded its kernel. `import_cpu_s`: `import kernelwright` in a fresh interpreter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions

from kernelwright.backends import BACKENDS, BuildFailure
from kernelwright.core import Candidate
from kernelwright.judge import Session, open_session
from kernelwright.judge.measure import Arm
from kernelwright.propose import PROPOSERS, Problem
from kernelwright.tasks.catalog import find_task

REPEATS, FIRST = 9, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="softmax")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with open_session(find_task(options.task)) as session:
        subject = first_cpp(session)
        first = [one_verdict(session, subject, -n)[0] for n in range(FIRST)]
        costs, walls = zip(*(one_verdict(session, subject, n) for n in range(REPEATS)), strict=True)
        ready_ms = [time_worker(session, subject) for _ in range(REPEATS)]
    result = {
        "t1_cpu_s": statistics.median(costs),
        "import_cpu_s": import_cost(),
        "worker_ready_ms": statistics.median(ready_ms),
        "t1_cpu_s_all": costs,
        "t1_cpu_s_first": first,
        "t1_wall_s": statistics.median(walls),
        "conditions": conditions(),
    }
    print(
        json.dumps(result) if options.json else "\n".join(f"{k:16} {v}" for k, v in result.items())
    )


def first_cpp(session: Session) -> Candidate:
    problem = Problem(session.task, session.reference, session.shape, session.main.signature)
    candidates = PROPOSERS["search"]().propose(problem, [])
    return next(candidate for candidate in candidates if candidate.kind == "cpp")


def marked(candidate: Candidate, text: str) -> Candidate:
    """The same kernel under another identity, so that no cache knows it."""
    first, *rest = candidate.sources
    stamp = f"\n// {text} {time.time_ns()}\n"
    changed = first.model_copy(update={"text": first.text + stamp})
    return candidate.model_copy(update={"sources": (changed, *rest)})


def one_verdict(session: Session, subject: Candidate, number: int) -> tuple[float, float]:
    """The judge counts itself and the workers that have ended: baselines live on, uncounted."""
    verdict = session.judge(marked(subject, f"copy {number}"))
    return verdict.cost_cpu_s, verdict.wall_s


def time_worker(session: Session, subject: Candidate) -> float:
    artefact = BACKENDS["cpp"].build(subject, session.cache)
    assert not isinstance(artefact, BuildFailure), artefact.reason
    started = time.perf_counter()
    arm = session.main.spawn("candidate", artefact)
    elapsed = time.perf_counter() - started
    assert isinstance(arm, Arm)
    arm.close()
    return 1e3 * elapsed


def import_cost() -> float:
    code = "import time; import kernelwright; print(time.process_time())"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(REPEATS)
    ]
    return statistics.median(runs)


if __name__ == "__main__":
    main()
