"""Does the judge tell wrong kernels from right ones?

    python benchmarks/correctness.py [--json] [--seed N] [--mutants 8] [--only TASK] [--jobs N]

Honest: every `cpp` and `graph` Candidate the search proposes for the built-in tasks, and kernels
written by hand in other styles (other summation orders, two passes, threads over columns, scratch).
Bugs: written by hand, and drawn by mutation operators from the accepted kernels. The operators and
the seed were fixed after the tolerances. A mutant whose text differs but whose results cannot is
listed in EQUIVALENT with the reason. Nothing here depends on the clock: several tasks may run at
once (`--jobs`), each on cores of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions

from kernelwright.backends import BACKENDS, BuildFailure
from kernelwright.core import Accepted, Candidate, Inconclusive, Rejected, SourceFile, Verdict
from kernelwright.exploits.honest.corpus import HONEST
from kernelwright.exploits.honest.corpus_bugs import BUGS
from kernelwright.judge import Session, open_session
from kernelwright.judge.effort import EFFORTS
from kernelwright.propose import PROPOSERS, Problem
from kernelwright.tasks.catalog import find_task

EFFORT = replace(EFFORTS["T2"], shapes=2, pairs=1, check_share=1.0, all_baselines=False)
PER_TASK_HONEST = 4

# Each operator: what to look for in the kernel and what to put there.
OPERATORS: dict[str, tuple[str, str]] = {
    "plus to minus": (r" \+ (?=[a-z(])", " - "),
    "minus to plus": (r" - (?=[a-z(])", " + "),
    "times to plus": (r" \* (?=[a-z(])", " + "),
    "maximum to minimum": (r"\bvmax\(", "vmin("),
    "drops the exponential": (r"\bvexp\(", "("),
    "one column fewer": (r"c < columns", "c < columns - 1"),
    "one row fewer": (r"row < rows", "row < rows - 1"),
    "one unroll fewer": (r"u < (\d)\b", r"u + 1 < \1"),
    "forgets the last block": (r"c \+ 16 <= columns", "c + 32 <= columns"),
    "wrong identity": (r"splat\(0\.0f\)", "splat(1.0f)"),
    "wrong row": (r"row \* columns", "(row ^ 1) * columns"),
    "float carry": (r"\bdouble carry", "float carry"),
    "next middle": (r"m < middle", "m < middle - 1"),
    "second place": (r"m = 1; m", "m = 2; m"),
    "other sign": (r" > best", " < best"),
    "last of ties": (r"v > best", "v >= best"),
    "wrong slot": (r"inputs\[0\]", "inputs[1]"),
    "half precision": (r"load<FULL>\((x\d+) \+ c, n\)", r"halved(load<FULL>(\1 + c, n))"),
}
HALVED = """
static inline vf halved(vf v) { return (vf)(((vi)v + 0x8000) & ~0xffff); } /* to bfloat16 */
"""
EQUIVALENT: dict[str, str] = {
    "91fec89541d7": "argmax: only the size from which threads are used differs",
    "aa8dc117c8c7": "masked_cumsum: only the size from which threads are used differs",
    "329f44317206": "masked_cumsum: sizes are read off the mask, which has the same shape",
    "cfd13cde4399": "layernorm: a loop that never runs, the one before it leaves fewer than 16",
    "ae7e65c9cb18": "masked_cumsum: a loop that never runs, as above",
    "753f24747ff6": "masked_cumsum: the loop after it does the block that is left",
    "484b9ef9aba5": "softmax: only the maximum is rounded, and any number near it does as well",
    "c11bd4a7e0c1": "layernorm: the scratch that gets too small is never used",
    "3ab186c8d773": "argmax: only the size from which threads are used differs",
    "375c2a8b0250": "masked_cumsum: the mask is rounded, and holds only 0 and 1",
    "14a2b7c4f43e": "softmax: a loop that never runs, the one before it leaves fewer than 16",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--mutants", type=int, default=8, help="per task with C++ kernels")
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = [name for name in HONEST if options.only in (None, name)]
    rows = [found for part in study_all(names, options) for found in part]
    honest = [r for r in rows if r["kind"] == "honest"]
    bugs = [r for r in rows if r["kind"] == "bug"]
    result = {
        "bugs": len(bugs),
        "bugs_rejected": sum(r["rejected"] for r in bugs),
        "honest": len(honest),
        "honest_accepted": sum(r["accepted"] for r in honest),
        "by_mutation": sum(r["idea"].startswith("mutant") for r in bugs),
        "missed": [r for r in bugs if not r["rejected"]],
        "wronged": [r for r in honest if not r["accepted"]],
        "seed": options.seed,
        "conditions": conditions(),
        "rows": rows,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{k:16} {v}" for k, v in result.items() if k != "rows"))


def study_all(names: list[str], options: argparse.Namespace) -> Iterator[list[dict]]:
    if options.jobs == 1:
        yield from (study(name, options) for name in names)
        return
    cores: multiprocessing.Queue[list[int]] = multiprocessing.Queue()
    have = sorted(os.sched_getaffinity(0))
    for job in range(options.jobs):
        cores.put(have[job :: options.jobs])
    with ProcessPoolExecutor(options.jobs, initializer=take_cores, initargs=(cores,)) as pool:
        yield from pool.map(study, names, [options] * len(names))


def take_cores(cores: multiprocessing.Queue[list[int]]) -> None:
    os.sched_setaffinity(0, cores.get())


def study(name: str, options: argparse.Namespace) -> list[dict]:
    with open_session(find_task(name)) as session:
        kernels = list(honest_kernels(session, name))
        found = [row(session, name, kernel, "honest") for kernel in kernels]
        wrong = [*by_hand(name), *mutants(session, kernels, options)]
        return found + [row(session, name, kernel, "bug") for kernel in wrong]


def row(session: Session, task: str, candidate: Candidate, kind: str) -> dict:
    verdict = session.judge(candidate, "T2", effort=EFFORT)
    rejected = isinstance(verdict.outcome, Rejected) and verdict.outcome.stage != "build"
    accepted = isinstance(verdict.outcome, Accepted)
    mark = "." if accepted or rejected else "?"
    print(mark, end="", file=sys.stderr, flush=True)
    return {
        "kind": kind,
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


def mutants(
    session: Session, kernels: list[Candidate], options: argparse.Namespace
) -> list[Candidate]:
    """Draws operator and place by the seed until this task has its share of mutants that build."""
    rng = random.Random(options.seed)
    sources = [kernel for kernel in kernels if kernel.kind == "cpp"]
    found: dict[str, Candidate] = {}
    for _ in range(400):
        if not sources or len(found) >= options.mutants:
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
        built = BACKENDS["cpp"].build(mutant, session.cache)
        if mutant.id not in EQUIVALENT and not isinstance(built, BuildFailure):
            found.setdefault(mutant.id, mutant)
    return list(found.values())


def cpp(text: str, idea: str) -> Candidate:
    return Candidate(kind="cpp", sources=(SourceFile(name="kernel.cpp", text=text),), idea=idea)


if __name__ == "__main__":
    main()
