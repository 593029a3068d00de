"""Does the judge tell wrong kernels from right ones?

    python benchmarks/correctness.py [--json] [--seed 20261202] [--mutants 36] [--only TASK]

Honest: every `cpp` and `graph` Candidate the search proposes for the built-in tasks, and kernels
written by hand in other styles (other summation orders, two passes, threads over columns, scratch).
Bugs: written by hand, and drawn by mutation operators from the accepted kernels. The operators and
the seed were fixed after the tolerances. A mutant whose text differs but whose results cannot is
listed in EQUIVALENT with the reason.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from corpus import BUGS, HONEST

from kernelwright.core import Accepted, Candidate, Inconclusive, Rejected, SourceFile, Verdict
from kernelwright.judge import Session, open_session
from kernelwright.judge.effort import EFFORTS
from kernelwright.propose import PROPOSERS, Problem
from kernelwright.tasks.catalog import builtin_names, find_task

EFFORT = replace(EFFORTS["T2"], shapes=2, pairs=1, check_share=1.0, all_baselines=False)
PER_TASK_HONEST = 4

# Each operator: what to look for in the kernel and what to put there.
OPERATORS: dict[str, tuple[str, str]] = {
    "plus to minus": (r" \+ (?=[a-z(])", " - "),
    "minus to plus": (r" - (?=[a-z(])", " + "),
    "times to plus": (r" \* (?=[a-z(])", " + "),
    "maximum to minimum": (r"\bvmax\(", "vmin("),
    "drops the exponential": (r"\bvexp\(", "("),
    "one column fewer": (r"c < columns", "c + 1 < columns"),
    "one row fewer": (r"row < rows", "row + 1 < rows"),
    "one unroll fewer": (r"u < (\d)\b", r"u + 1 < \1"),
    "forgets the last block": (r"c \+ 16 <= columns", "c + 32 <= columns"),
    "wrong identity": (r"splat\(0\.0f\)", "splat(1.0f)"),
    "wrong row": (r"row \* columns", "(row ^ 1) * columns"),
    "float carry": (r"\bdouble carry", "float carry"),
    "next middle": (r"m < middle", "m + 1 < middle"),
    "second place": (r"m = 1; m", "m = 2; m"),
    "other sign": (r" > best", " < best"),
    "last of ties": (r"v > best", "v >= best"),
    "wrong slot": (r"inputs\[0\]", "inputs[1]"),
    "half precision": (r"load<FULL>\((x\d+) \+ c, n\)", r"halved(load<FULL>(\1 + c, n))"),
}
HALVED = """
static inline vf halved(vf v) { return (vf)(((vi)v + 0x8000) & ~0xffff); } /* to bfloat16 */
"""
EQUIVALENT: dict[str, str] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--mutants", type=int, default=36)
    parser.add_argument("--only")
    options = parser.parse_args()
    names = [name for name in builtin_names() if options.only in (None, name)]
    honest: list[dict] = []
    bugs: list[dict] = []
    for name in names:
        with open_session(find_task(name)) as session:
            kernels = list(honest_kernels(session, name))
            honest += [row(session, name, kernel) for kernel in kernels]
            wrong = [*by_hand(name), *mutants(kernels, options, len(names))]
            bugs += [row(session, name, kernel) for kernel in wrong]
    result = {
        "bugs": len(bugs),
        "bugs_rejected": sum(r["rejected"] for r in bugs),
        "honest": len(honest),
        "honest_accepted": sum(r["accepted"] for r in honest),
        "by_mutation": sum(r["idea"].startswith("mutant") for r in bugs),
        "missed": [r for r in bugs if not r["rejected"]],
        "wronged": [r for r in honest if not r["accepted"]],
        "seed": options.seed,
    }
    print(
        json.dumps(result) if options.json else "\n".join(f"{k:16} {v}" for k, v in result.items())
    )


def row(session: Session, task: str, candidate: Candidate) -> dict:
    verdict = session.judge(candidate, "T2", effort=EFFORT)
    rejected = isinstance(verdict.outcome, Rejected) and verdict.outcome.stage != "build"
    accepted = isinstance(verdict.outcome, Accepted)
    mark = "." if accepted or rejected else "?"
    print(mark, end="", file=sys.stderr, flush=True)
    return {
        "task": task,
        "idea": candidate.idea,
        "candidate": candidate.id,
        "rejected": rejected,
        "accepted": accepted,
        "why": reason(verdict),
    }


def reason(verdict: Verdict) -> str:
    match verdict.outcome:
        case Rejected(stage=stage, reason=text):
            return f"{stage}: {text}"
        case Inconclusive(reason=text):
            return f"inconclusive: {text}"
        case Accepted(correctness=checks):
            return f"error {checks.error_over_budget:.2f} of the budget"
    raise AssertionError


def honest_kernels(session: Session, name: str) -> Iterator[Candidate]:
    problem = Problem(session.task, session.reference, session.shape, session.main.signature)
    yield from islice(PROPOSERS["search"]().propose(problem, []), PER_TASK_HONEST)
    yield from (cpp(text, f"by hand: {style}") for style, text in HONEST.get(name, {}).items())


def by_hand(name: str) -> Iterator[Candidate]:
    yield from (cpp(text, f"by hand: {what}") for what, text in BUGS.get(name, {}).items())


def mutants(kernels: list[Candidate], options: argparse.Namespace, tasks: int) -> list[Candidate]:
    """Draws operator and place by the seed until this task has its share of distinct mutants."""
    rng = random.Random(options.seed)
    sources = [kernel for kernel in kernels if kernel.kind == "cpp"]
    found: dict[str, Candidate] = {}
    share = -(-options.mutants // 4) if tasks > 1 else options.mutants
    for _ in range(400):
        if not sources or len(found) >= share:
            break
        kernel, what = rng.choice(sources), rng.choice(list(OPERATORS))
        pattern, replacement = OPERATORS[what]
        first, *rest = kernel.sources
        start = first.text.find('extern "C"')
        places = list(re.finditer(pattern, first.text[start:]))
        if not places:
            continue
        place = rng.choice(places)
        text = first.text[: start + place.start()] + place.expand(replacement)
        text += first.text[start + place.end() :]
        if what == "half precision":
            text = text.replace('extern "C"', HALVED + 'extern "C"', 1)
        changed = first.model_copy(update={"text": text})
        mutant = Candidate(kind="cpp", sources=(changed, *rest), idea=f"mutant: {what}")
        if mutant.id not in EQUIVALENT:
            found.setdefault(mutant.id, mutant)
    return list(found.values())


def cpp(text: str, idea: str) -> Candidate:
    return Candidate(kind="cpp", sources=(SourceFile(name="kernel.cpp", text=text),), idea=idea)


if __name__ == "__main__":
    main()
