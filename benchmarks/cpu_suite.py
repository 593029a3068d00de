"""Every built-in task through `kernelwright optimize`: wins, and what they are worth.

    python benchmarks/cpu_suite.py --json [--budget 120s] [--keep FILE] [--only TASK ...]

Runs alone on a quiet machine, one task after the other. `--keep` appends one line per task and
skips those that the file holds, so an interrupted suite goes on. A task without a win counts as 1.0
in the geometric means, whatever its best candidate measured; so does one over a baseline that did
not run. `geomean_best` is over the fastest correct baseline of each task, `geomean_compile` over
torch.compile in its default mode.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from conditions import conditions

from kernelwright.core import Accepted, Measured, Unresolved
from kernelwright.runs import open_run
from kernelwright.tasks.catalog import builtin_names

PROGRAM = Path(sys.executable).with_name("kernelwright")
COMPILE = "compile"


def main() -> None:
    options = _options()
    done = _kept(options.keep)
    for task in options.only or builtin_names():
        if task in done:
            continue
        row = run_task(task, options.budget, options.runs)
        done[task] = row
        print(_line(task, row), file=sys.stderr, flush=True)
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps({"task": task, **row}) + "\n")
    result = summarise(done) | {"conditions": conditions()}
    print(json.dumps(result) if options.json else json.dumps(result, indent=1))


def run_task(task: str, budget: str, runs: Path) -> dict[str, Any]:
    """One run, as its users get it; what is read back is its own Verdict."""
    words = [str(PROGRAM), "optimize", task, "--budget", budget, "--runs", str(runs), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        return {"outcome": "error", "reason": done.stderr.strip().splitlines()[-1][:300]}
    said = json.loads(done.stdout.splitlines()[-1])
    row: dict[str, Any] = {key: said[key] for key in ("outcome", "first_win_s", "notes")}
    row |= {"candidates": said["candidates"], "accepted": said["accepted"], "best": said["best"]}
    if said["best"] is not None:
        row["against"] = _against(Path(said["run"]), said["best"]["candidate"])
    return row


def _against(run: Path, candidate: str) -> dict[str, list[float]]:
    """Speed-up over each baseline in the last Verdict on the candidate."""
    last = [v for v in open_run(run).verdicts() if v.candidate == candidate][-1]
    match last.outcome:
        case Accepted(timing=Measured(against=several) | Unresolved(against=several)):
            return {one.baseline: list(one.speedup) for one in several}
        case _:
            return {}


def summarise(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    wins = {task: row for task, row in rows.items() if row["outcome"] == "win"}
    best = [row["best"]["speedup"]["mid"] for row in wins.values()]
    compiled = [row["against"].get(COMPILE, [1, 1, 1])[1] for row in wins.values()]
    return {
        "tasks": len(rows),
        "wins": len(wins),
        "geomean_best": _geomean(best, len(rows)),
        "geomean_compile": _geomean(compiled, len(rows)),
        "per_task": rows,
    }


def _geomean(gains: list[float], count: int) -> float:
    return math.exp(sum(map(math.log, gains)) / max(count, 1))


def _line(task: str, row: dict[str, Any]) -> str:
    best = row.get("best")
    gain = " {low:.2f} {mid:.2f} {high:.2f}".format(**best["speedup"]) if best else ""
    over = f" over {best['baseline']}" if best else ""
    return f"{task}: {row['outcome']}{gain}{over} {row.get('notes') or row.get('reason') or ''}"


def _kept(path: Path | None) -> dict[str, dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row.pop("task"): row for row in rows}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--only", nargs="*", choices=builtin_names())
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
