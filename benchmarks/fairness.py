"""Does any arm pay what another does not? One computation as eager, graph and cpp.

    python benchmarks/fairness.py [--pairs 60] [--only CASE] [--json]

Each case reads 64 MiB, so all three run at memory speed and take the same time, whatever the size
of the output; a ratio other than 1.00, beyond the width of eager against itself, is the judge's own
doing. (Calls of microseconds would not show it: there eager's dispatch, torch.compile's guards and
a bare function differ in truth; nor would a sum do: inductor's is compensated.) Beside that: each
baseline's worker against a stock script that calls the model in a loop on inputs just written,
with the same threads and allocator settings, taking turns with it in one run; `default_malloc` is
the same script with the allocator as the system has it. Both write the inputs as a plain copy from
one thread: torch's own copy, on the threads that read next, leaves a part in their caches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions

from kernelwright.backends import BACKENDS, Artefact, BuildFailure
from kernelwright.core import Candidate, SourceFile
from kernelwright.judge import Session, open_session
from kernelwright.judge.measure import Arm, Fault, compare_arms
from kernelwright.judge.station import COMPILE, EAGER
from kernelwright.sandbox import Failure
from kernelwright.sandbox.limits import worker_environment
from kernelwright.tasks.catalog import find_task

TURNS, CALLS = 15, 8


class Double(torch.nn.Module):
    """Twice each element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One read and one write of memory."""
        return x * 2.0


class RowMax(torch.nn.Module):
    """The largest of each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Nothing but reads where rows are long."""
        return x.amax(1)


class ColumnMax(torch.nn.Module):
    """The largest of each column."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sixteen streams of reads where there are as many rows."""
        return x.amax(0)


CASES = {
    "64 KiB": ("RowMax", "16384x1024"),
    "4 MiB": ("ColumnMax", "16x1048576"),
    "64 MiB": ("Double", "4096x4096"),
}
NODES = {
    "Double": {"op": "aten.mul.Tensor", "args": [{"ref": 0}, 2.0]},
    "RowMax": {"op": "aten.amax.default", "args": [{"ref": 0}, [1]]},
    "ColumnMax": {"op": "aten.amax.default", "args": [{"ref": 0}, [0]]},
}
HEAD = """
#include "kernelwright.h"
extern "C" void kernel(const kw_tensor* in, int, const kw_tensor* out, int) {
  typedef float vf __attribute__((vector_size(64), aligned(4)));
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  const long rows = in[0].sizes[0], n = in[0].sizes[1];
#pragma omp parallel for schedule(static)
"""
BODIES = {
    "Double": """
  for (long i = 0; i < rows * n; i += 16) *(vf*)(y + i) = *(const vf*)(x + i) * 2.0f;
}
""",
    "RowMax": """
  for (long row = 0; row < rows; row++) {
    vf tops[4];
    for (int k = 0; k < 4; k++) tops[k] = *(const vf*)(x + row * n + 16 * k);
    for (long i = 64; i < n; i += 64)
      for (int k = 0; k < 4; k++) {
        const vf v = *(const vf*)(x + row * n + i + 16 * k);
        tops[k] = v > tops[k] ? v : tops[k];
      }
    float top = tops[0][0];
    for (int k = 0; k < 4; k++)
      for (int lane = 0; lane < 16; lane++) top = tops[k][lane] > top ? tops[k][lane] : top;
    y[row] = top;
  }
}
""",
    "ColumnMax": """
  for (long i = 0; i < n; i += 16) {
    vf top = *(const vf*)(x + i);
    for (long row = 1; row < rows; row++) {
      const vf v = *(const vf*)(x + row * n + i);
      top = v > top ? v : top;
    }
    *(vf*)(y + i) = top;
  }
}
""",
}
STOCK = """
import sys, time, numpy, torch
torch.set_num_threads(int(sys.argv[2])); torch.set_grad_enabled(False)
class Double(torch.nn.Module):
    def forward(self, x): return x * 2.0
class RowMax(torch.nn.Module):
    def forward(self, x): return x.amax(1)
class ColumnMax(torch.nn.Module):
    def forward(self, x): return x.amax(0)
shape = list(map(int, sys.argv[1].split("x")))
model, inputs, fresh = globals()[sys.argv[4]](), [torch.randn(shape)], torch.randn(4, *shape)
forward = torch.compile(model) if sys.argv[3] == "compile" else model
for _ in range(20): y = forward(*inputs)
print("ready", flush=True)
for line in sys.stdin:
    times = []
    for turn in range(int(line)):
        numpy.copyto(inputs[0].numpy(), fresh[turn % 4].numpy())
        started = time.perf_counter_ns(); y = forward(*inputs)
        times.append(time.perf_counter_ns() - started)
    print(sorted(times)[len(times) // 2], flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    stock: dict[str, float] = {}
    for name in [options.only] if options.only else CASES:
        model, shape = CASES[name]
        task = find_task(f"{__file__}:{model}", inputs=[f"{shape}:float32"])
        with open_session(task) as session:
            rows += compare(session, model, options.pairs)
            for baseline, settings in ((EAGER, ""), (COMPILE, ""), (EAGER, " default_malloc")):
                ratio = against_stock(session, model, shape, baseline, settings)
                stock[f"{name} {baseline}{settings}"] = ratio
                print(f"{name} {baseline}{settings} {ratio:.3f}", file=sys.stderr, flush=True)
    judged = [ratio for key, ratio in stock.items() if "default_malloc" not in key]
    worst = max(judged, key=lambda ratio: abs(ratio - 1))
    result = {"rows": rows, "stock_ratio": worst, "stock": stock, "conditions": conditions()}
    print(json.dumps(result) if options.json else as_text(result))


def compare(session: Session, model: str, pairs: int) -> list[dict[str, object]]:
    """eager/eager for the width, then the three pairs of different arms."""
    station = session.main
    again = station.measure_resolution()
    assert not isinstance(again, Fault), again.reason
    arms = [station.baseline(EAGER), *(spawn(session, c) for c in candidates(model))]
    rows = []
    for one, other in [*pairwise(arms), (arms[0], arms[2])]:
        assert isinstance(one, Arm)
        assert isinstance(other, Arm)
        times = compare_arms(station.bench, one, other, draws=station.cycling(), pairs=pairs)
        assert not isinstance(times, Fault), times.reason
        low, mid, high = times.interval
        print(f"{model} {one.name}/{other.name} {mid:.3f}", file=sys.stderr, flush=True)
        rows.append(
            {
                "bytes": sum(layout.nbytes for layout in station.bench.outputs),
                "pair": f"{one.name}/{other.name}",
                "ratio": mid,
                "interval": [low, mid, high],
                "aa_width": again.resolution,
                "ms": times.candidate_ns().mid / 1e6,
            }
        )
    for arm in arms[1:]:
        arm.close()
    return rows


def candidates(model: str) -> list[Candidate]:
    program = {"slots": 1, "nodes": [NODES[model]], "outputs": [{"ref": 1}]}
    graph = SourceFile(name="program.json", text=json.dumps(program))
    cpp = SourceFile(name="kernel.cpp", text=HEAD + BODIES[model])
    return [Candidate(kind="graph", sources=(graph,)), Candidate(kind="cpp", sources=(cpp,))]


def spawn(session: Session, candidate: Candidate) -> Arm:
    artefact: Artefact | BuildFailure = BACKENDS[candidate.kind].build(candidate, session.cache)
    assert not isinstance(artefact, BuildFailure), artefact.reason
    arm = session.main.spawn(candidate.kind, artefact, trusted=True)
    assert not isinstance(arm, Failure), arm.detail
    session.main.bench.warm(arm, session.main.decoy)
    return arm


def against_stock(session: Session, model: str, shape: str, baseline: str, settings: str) -> float:
    """Worker's median over the script's, medians of turns: 1.00 where the worker costs nothing."""
    env = worker_environment(session.cache)
    if settings:
        env = {key: value for key, value in env.items() if not key.startswith("MALLOC")}
    threads = len(os.sched_getaffinity(0))
    command = [sys.executable, "-c", STOCK, shape, str(threads), baseline, model]
    station = session.main
    arm = station.baseline(baseline)
    assert isinstance(arm, Arm)
    draws = station.cycling()
    ratios = []
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdin is not None
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        for _ in range(TURNS):
            script.stdin.write(f"{CALLS}\n")
            script.stdin.flush()
            theirs = int(script.stdout.readline())
            runs = [station.bench.run_primed(arm, draws(i), keep=False) for i in range(CALLS)]
            mine = statistics.median(run.wall_ns for run in runs if not isinstance(run, Fault))
            ratios.append(mine / theirs)
        script.stdin.close()
    return statistics.median(ratios)


def as_text(result: dict) -> str:
    lines = [
        f"{row['bytes'] >> 10:8} KiB  {row['pair']:14} {row['ratio']:.3f}  "
        f"(eager/eager half-width {row['aa_width']:.3f}; {row['ms']:.2f} ms)"
        for row in result["rows"]
    ]
    lines += [f"worker / stock script, {name:32} {r:.3f}" for name, r in result["stock"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
