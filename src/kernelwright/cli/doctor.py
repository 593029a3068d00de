"""`kernelwright doctor`: what this machine can do, and what each missing thing costs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from cyclopts import Parameter

from kernelwright.cli.options import Json
from kernelwright.cli.output import Exit, print_json, say

Sandbox = Annotated[
    bool,
    Parameter(
        negative="",
        help="Try what a candidate must not do, in a worker of the tier that this machine has, and "
        "name each act that succeeds.",
    ),
]
_WANTED_FLAGS = ("avx2", "fma", "avx512f", "amx_bf16")
_TIMEOUT_S = 30
_OPENMP_PROGRAM = """
#include <omp.h>
#include <cstdio>
int main() {
  int n = 0;
  #pragma omp parallel reduction(+ : n)
  n += 1;
  std::printf("%d", n);
}
"""


class Finding(NamedTuple):
    """One line of the diagnosis. Without a `needed` thing nothing can be optimised."""

    name: str
    state: Literal["ok", "limited", "missing"]
    detail: str
    advice: str = ""
    """What a missing thing costs and how to get it."""
    needed: bool = False


def doctor(*, sandbox: Sandbox = False, json: Json = False) -> int:
    """Say what works on this machine, and what each missing thing costs and how to get it.

    Exits with 2 when something is missing without which nothing can be optimised, or when the
    sandbox lets an act through.
    """
    if sandbox:
        return _break_out(json=json)
    findings = [_python(), _torch(), _machine(), _compiler(), _openmp(), _cuda(), _sandbox()]
    findings += [_cache(), _kernelbench()]
    if json:
        print_json({finding.name: _as_object(finding) for finding in findings})
    else:
        for finding in findings:
            say(f"{finding.name:12} {finding.state:8} {finding.detail}")
            if finding.advice:
                say(f"{'':21} {finding.advice}")
    lacking = any(finding.needed and finding.state == "missing" for finding in findings)
    return Exit.USER_ERROR if lacking else Exit.DONE


def _break_out(*, json: bool) -> int:
    from kernelwright.sandbox import probe_jail, run_self_test

    jail = probe_jail()
    by_worker = {worker: run_self_test(jail, worker) for worker in ("native", "python")}
    attempted = sum(found.attempted for found in by_worker.values())
    acts = [f"{worker}: {a}" for worker, found in by_worker.items() for a in found.succeeded]
    if json:
        print_json({"tier": jail.tier, "attempted": attempted, "succeeded": acts})
    else:
        denied = attempted - len(acts)
        say(f"sandbox tier {jail.tier}: {denied} of {attempted} forbidden acts denied")
        for act in acts:
            say(f"not denied: {act.replace('_', ' ')}")
    return Exit.USER_ERROR if acts else Exit.DONE


def _as_object(finding: Finding) -> dict[str, str]:
    return {"state": finding.state, "detail": finding.detail, "advice": finding.advice}


def _python() -> Finding:
    return Finding("python", "ok", platform.python_version())


def _torch() -> Finding:
    try:
        import torch
    except ImportError:
        advice = "nothing can run without it: pip install torch"
        return Finding("torch", "missing", "it does not import", advice, needed=True)
    return Finding("torch", "ok", str(torch.__version__))


def _machine() -> Finding:
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"(?:flags|Features)\s*: (.*)", text)
    have = [flag for flag in _WANTED_FLAGS if flags and flag in flags[1].split()]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    parts = [name[1] if name else platform.machine(), f"{cores} cores", f"{memory_gib:.0f} GiB"]
    detail = ", ".join([*parts, *have])
    if cores < 2:
        advice = "the judge shares its only core with what it times: expect wide intervals"
        return Finding("cpu", "limited", detail, advice)
    return Finding("cpu", "ok", detail)


def _compiler() -> Finding:
    path = _compiler_path()
    if path is None:
        advice = "no cpp candidates and no torch.compile without it: apt-get install g++"
        return Finding("compiler", "missing", "no g++ on PATH", advice, needed=True)
    printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return Finding("compiler", "ok", printed.stdout.partition("\n")[0] or path)


def _openmp() -> Finding:
    compiler = _compiler_path()
    if compiler is None:
        return Finding("openmp", "missing", "it comes with the compiler")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "threads")
        command = [compiler, "-fopenmp", "-x", "c++", "-", "-o", program]
        try:
            subprocess.run(
                command, input=_OPENMP_PROGRAM, text=True, capture_output=True, check=True
            )
            ran = subprocess.run(
                [program], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
            )
        except (subprocess.SubprocessError, OSError):
            advice = "cpp candidates that use threads do not build: apt-get install libgomp1"
            return Finding("openmp", "missing", "a program with -fopenmp fails", advice)
    return Finding("openmp", "ok", f"{ran.stdout} threads")


def _compiler_path() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++"))


def _cuda() -> Finding:
    nvcc = shutil.which("nvcc")
    if Path("/dev/nvidia0").exists():
        advice = "judge --device cuda needs a torch that is built for CUDA"
        if nvcc:
            return Finding("cuda", "ok", f"a device, and {nvcc}", advice)
        return Finding(
            "cuda", "limited", "a device, no nvcc", f"Install it for .cu files; {advice}"
        )
    advice = "judge --device cuda needs a device; the CPU needs none"
    if nvcc:
        return Finding("cuda", "limited", "compile only: nvcc, no device", advice)
    return Finding("cuda", "missing", "no nvcc, no device", advice)


def _sandbox() -> Finding:
    from kernelwright.sandbox import probe_jail

    jail = probe_jail()
    walls = {"namespaces": jail.namespaces, "Landlock": jail.landlock, "seccomp": jail.seccomp}
    missing = [name for name, there in walls.items() if not there]
    if missing:
        detail = f"tier {jail.tier} for native candidates: no {', no '.join(missing)}"
        advice = "judge no candidate that you would not run yourself"
        return Finding("sandbox", "limited", detail, advice)
    detail = f"tier {jail.tier} for native candidates: {', '.join(walls)}"
    advice = "graphs and submissions in Python run in plain processes, tier D"
    return Finding("sandbox", "limited", detail, advice)


def _cache() -> Finding:
    named = os.environ.get("KERNELWRIGHT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(named) if named else Path(base) / "kernelwright"
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return Finding("cache", "ok", str(folder))
    advice = "every run builds everything again: set KERNELWRIGHT_CACHE to a folder"
    return Finding("cache", "limited", f"{folder} cannot be written", advice)


def _kernelbench() -> Finding:
    root = os.environ.get("KERNELBENCH_ROOT")
    if root and (Path(root) / "level1").is_dir():
        return Finding("kernelbench", "ok", root)
    detail = f"{root} has no level1" if root else "KERNELBENCH_ROOT is not set"
    advice = "no kernelbench:LEVEL/PROBLEM tasks: point it at the folder that holds level1"
    return Finding("kernelbench", "missing", detail, advice)
