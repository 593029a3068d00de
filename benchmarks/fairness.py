"""Does any arm pay what another does not? One computation as eager, graph and cpp.

    python benchmarks/fairness.py [--pairs 60] [--only CASE] [--json]

The computation is a running log-sum-exp in double along each row, several times over where that
makes it long: a chain in which every step waits for the one before. Its outputs are 64 KiB (the end
of each row alone), 4 MiB and 64 MiB. The fourth case doubles 64 MiB at memory speed, where a fresh
page per write would show most.

`rows` are pairs of arms that run the same machine code, so a ratio other than 1.00, beyond the
width of eager against itself, is the judge's own doing: `eager/graph` is ATen's loop, called by the
reference and by a compiled graph (but at memory speed, where torch.compile makes a loop of its
own); `called/cpp` is one shared object, called from Python as its user would and by the native
runner. `across` holds pairs of different code, whose times may differ in truth; `beside_stock` is
their ratio over that of the two arms' stock scripts.

Beside that: each baseline's worker against a stock script that calls the model in a loop on inputs
just written, with the same threads and allocator settings, taking turns with it in one run;
`default_malloc` is the same script with the allocator as the system has it. Both write the inputs
as a plain copy from one thread: torch's own copy, on the threads that read next, leaves a part in
their caches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions

from kernelwright.backends import BACKENDS, Artefact, BuildFailure, NativeArtefact, PythonArtefact
from kernelwright.core import Candidate, SourceFile
from kernelwright.judge import Session, open_session
from kernelwright.judge.measure import Arm, Fault, compare_arms
from kernelwright.judge.station import COMPILE, EAGER
from kernelwright.sandbox import Failure
from kernelwright.sandbox.limits import worker_environment
from kernelwright.tasks.catalog import find_task

TURNS, CALLS = 15, 8
CPP, DEFAULT = "cpp", " default_malloc"
SCRIPT = {EAGER: EAGER, "graph": COMPILE, CPP: CPP}
"""Which stock script runs the same code as an arm."""


class Double(torch.nn.Module):
    """Twice each element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One read and one write of memory."""
        return x * 2.0


class RowLogSum(torch.nn.Module):
    """The end of the running log-sum-exp of each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One dependent chain per row, and little to write."""
        return torch.logcumsumexp(x, 1)[:, -1].clone()


class FourLogSums(torch.nn.Module):
    """The running log-sum-exp of each row, four times over."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four dependent chains per row, one after another."""
        for _ in range(4):
            x = torch.logcumsumexp(x, 1)
        return x


class RunningLogSum(torch.nn.Module):
    """The running log-sum-exp of each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One dependent chain per row."""
        return torch.logcumsumexp(x, 1)


CASES = {
    "64 KiB": ("RowLogSum", "16384x256"),
    "4 MiB": ("FourLogSums", "1024x1024"),
    "64 MiB": ("RunningLogSum", "4096x4096"),
    "64 MiB at memory speed": ("Double", "4096x4096"),
}
_CHAINS = [{"op": "aten.logcumsumexp.default", "args": [{"ref": at}, 1]} for at in range(4)]
NODES = {
    "Double": [{"op": "aten.mul.Tensor", "args": [{"ref": 0}, 2.0]}],
    "RunningLogSum": _CHAINS[:1],
    "FourLogSums": _CHAINS,
    "RowLogSum": [
        _CHAINS[0],
        {"op": "aten.select.int", "args": [{"ref": 1}, 1, -1]},
        {"op": "aten.clone.default", "args": [{"ref": 2}]},
    ],
}
HEAD = """
#include "kernelwright.h"
#include <math.h>
#include <stdlib.h>
extern "C" void kernel(const kw_tensor* in, int, const kw_tensor* out, int) {
  typedef float vf __attribute__((vector_size(64), aligned(4)));
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  const long rows = in[0].sizes[0], n = in[0].sizes[1];
"""
SPLIT = """
#pragma omp parallel for schedule(static) if (rows * n >= 32768)  // where ATen splits, too
"""
CHAIN = (
    SPLIT
    + """
  for (long row = 0; row < rows; row++) {
    double run = -INFINITY;
    for (long i = row * n; i < (row + 1) * n; i++) {
      // As ATen's _log_add_exp_helper does, its tests for NaN and infinity included.
      const double v = FROM[i];
      const double low = isnan(run) ? run : run < v ? run : v;
      const double high = isnan(run) ? run : v < run ? run : v;
      run = low != high || isfinite(low) ? log1p(exp(low - high)) + high : v;
      TO[i] = (float)run;
    }
  }
"""
)
BODIES = {
    "Double": SPLIT
    + "for (long i = 0; i < rows * n; i += 16) *(vf*)(y + i) = *(const vf*)(x + i) * 2.0f;",
    "RunningLogSum": CHAIN.replace("TO", "y").replace("FROM", "x"),
    "FourLogSums": CHAIN.replace("TO", "y").replace("FROM", "x")
    + 3 * CHAIN.replace("TO", "y").replace("FROM", "y"),
    "RowLogSum": "float* whole = (float*)malloc(sizeof(float) * rows * n);  // as eager does\n"
    + CHAIN.replace("TO", "whole").replace("FROM", "x")
    + "for (long row = 0; row < rows; row++) y[row] = whole[row * n + n - 1]; free(whole);",
}
STOCK = """
import ctypes, sys, time, numpy, torch
torch.set_num_threads(int(sys.argv[2])); torch.set_grad_enabled(False)
class Double(torch.nn.Module):
    def forward(self, x): return x * 2.0
class RunningLogSum(torch.nn.Module):
    def forward(self, x): return torch.logcumsumexp(x, 1)
class FourLogSums(torch.nn.Module):
    def forward(self, x):
        for _ in range(4): x = torch.logcumsumexp(x, 1)
        return x
class RowLogSum(torch.nn.Module):
    def forward(self, x): return torch.logcumsumexp(x, 1)[:, -1].clone()
shape = list(map(int, sys.argv[1].split("x")))
model, inputs, fresh = globals()[sys.argv[4]](), [torch.randn(shape)], torch.randn(4, *shape)
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("sizes", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]
def structure(t):
    return Tensor(t.data_ptr(), 0, t.ndim, tuple(t.shape), tuple(t.stride()))
def native(x):
    made = torch.empty(like.shape)
    kernel(ctypes.byref(structure(x)), 1, ctypes.byref(structure(made)), 1)
    return made
if sys.argv[3] == "cpp":
    kernel, like = ctypes.CDLL(sys.argv[5]).kernel, model(*inputs)
forward = {"eager": model, "compile": torch.compile(model), "cpp": native}[sys.argv[3]]
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
    across: list[dict[str, object]] = []
    stock: dict[str, float] = {}
    for name in [options.only] if options.only else CASES:
        model, shape = CASES[name]
        task = find_task(f"{__file__}:{model}", inputs=[f"{shape}:float32"])
        with open_session(task) as session:
            against: dict[str, float] = {}
            for arm, settings in ((EAGER, ""), (COMPILE, ""), (CPP, ""), (EAGER, DEFAULT)):
                against[f"{arm}{settings}"] = against_stock(session, model, shape, arm, settings)
                ratio = against[f"{arm}{settings}"]
                print(f"{name} {arm}{settings} {ratio:.3f}", file=sys.stderr, flush=True)
            same, different = compare(session, model, options.pairs, against)
            rows += same
            across += different
            stock |= {f"{name} {arm}": ratio for arm, ratio in against.items()}
    judged = [ratio for key, ratio in stock.items() if DEFAULT not in key]
    worst = max(judged, key=lambda ratio: abs(ratio - 1))
    result = {"rows": rows, "across": across, "stock_ratio": worst, "stock": stock}
    result["conditions"] = conditions()
    print(json.dumps(result) if options.json else as_text(result))


def compare(
    session: Session, model: str, pairs: int, against: dict[str, float]
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """eager/eager for the width, then pairs of arms of the same code, and of different code."""
    station = session.main
    again = station.measure_resolution()
    assert not isinstance(again, Fault), again.reason
    width = again.resolution
    eager = station.baseline(EAGER)
    graph, cpp = (spawn(session, candidate) for candidate in candidates(model))
    called = station.spawn("called", called_from_python(session, model), trusted=True)
    assert isinstance(eager, Arm)
    assert isinstance(called, Arm)
    station.bench.warm(called, station.decoy)
    rows = [one_pair(session, *arms, pairs, width) for arms in ((eager, graph), (called, cpp))]
    across = []
    for one, other in ((graph, cpp), (eager, cpp)):
        row = one_pair(session, one, other, pairs, width)
        stock = against[SCRIPT[one.name]] / against[SCRIPT[other.name]]
        across.append({**row, "beside_stock": stock})
    for arm in (graph, cpp, called):
        arm.close()
    return rows, across


def one_pair(session: Session, one: Arm, other: Arm, pairs: int, width: float) -> dict[str, object]:
    station = session.main
    times = compare_arms(station.bench, one, other, draws=station.cycling(), pairs=pairs)
    assert not isinstance(times, Fault), times.reason
    low, mid, high = times.interval
    print(f"{one.name}/{other.name} {mid:.3f} (width {width:.3f})", file=sys.stderr, flush=True)
    return {
        "bytes": sum(layout.nbytes for layout in station.bench.outputs),
        "pair": f"{one.name}/{other.name}",
        "ratio": mid,
        "interval": [low, mid, high],
        "aa_width": width,
        "ms": times.candidate_ns().mid / 1e6,
    }


def called_from_python(session: Session, model: str) -> PythonArtefact:
    """The cpp Candidate's shared object, called as an exported kernel is."""
    built = BACKENDS[CPP].build(candidates(model)[1], session.cache)
    assert isinstance(built, NativeArtefact), built
    outputs = [asdict(output) for output in session.main.signature.outputs]
    config = {"outputs": outputs, "library": str(built.library)}
    return PythonArtefact("kernelwright.backends.empty_call:from_python", config)


def candidates(model: str) -> list[Candidate]:
    nodes = NODES[model]
    program = {"slots": 1, "nodes": nodes, "outputs": [{"ref": len(nodes)}]}
    graph = SourceFile(name="program.json", text=json.dumps(program))
    cpp = SourceFile(name="kernel.cpp", text=HEAD + BODIES[model] + "\n}\n")
    return [Candidate(kind="graph", sources=(graph,)), Candidate(kind="cpp", sources=(cpp,))]


def spawn(session: Session, candidate: Candidate) -> Arm:
    artefact: Artefact | BuildFailure = BACKENDS[candidate.kind].build(candidate, session.cache)
    assert not isinstance(artefact, BuildFailure), artefact.reason
    arm = session.main.spawn(candidate.kind, artefact, trusted=True)
    assert not isinstance(arm, Failure), arm.detail
    session.main.bench.warm(arm, session.main.decoy)
    return arm


def against_stock(session: Session, model: str, shape: str, name: str, settings: str) -> float:
    """Worker's median over the script's, medians of turns: 1.00 where the worker costs nothing."""
    env = worker_environment(session.cache)
    if settings:
        env = {key: value for key, value in env.items() if not key.startswith("MALLOC")}
    native = candidates(model)[1]
    built = BACKENDS[CPP].build(native, session.cache)
    assert isinstance(built, NativeArtefact), built
    threads = len(os.sched_getaffinity(0))
    command = [sys.executable, "-c", STOCK, shape, str(threads), name, model, str(built.library)]
    station = session.main
    arm = spawn(session, native) if name == CPP else station.baseline(name)
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
    if name == CPP:
        arm.close()
    return statistics.median(ratios)


def as_text(result: dict) -> str:
    lines = [
        f"{row['bytes'] >> 10:8} KiB  {row['pair']:14} {row['ratio']:.3f}  "
        f"(eager/eager half-width {row['aa_width']:.3f}; {row['ms']:.2f} ms)"
        + (f" over the scripts' own: {row['beside_stock']:.3f}" if "beside_stock" in row else "")
        for row in (*result["rows"], *result["across"])
    ]
    lines += [f"worker / stock script, {name:32} {r:.3f}" for name, r in result["stock"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
