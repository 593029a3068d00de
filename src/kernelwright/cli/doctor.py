"""`kernelwright doctor`: what this machine can do, and what each missing thing costs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from kernelwright.cli.output import print_json

_WANTED_FLAGS = ("avx2", "fma", "avx512f", "amx_bf16")


class Finding(NamedTuple):
    """One line of the diagnosis. `state` is ok, limited or missing."""

    name: str
    state: str
    detail: str
    advice: str = ""


def doctor(*, json: bool = False) -> int:
    """Say what works on this machine, and what each missing thing costs and how to get it.

    Parameters
    ----------
    json
        Print one JSON object.
    """
    findings = [_torch(), _machine(), _compiler(), _openmp(), _cuda(), _sandbox(), _cache()]
    findings.append(_kernelbench())
    if json:
        print_json({finding.name: finding._asdict() for finding in findings})
    else:
        for finding in findings:
            print(f"{finding.name:12} {finding.state:8} {finding.detail}")
            if finding.advice:
                print(f"{'':21} {finding.advice}")
    missing = [f for f in findings if f.state == "missing" and f.name in ("torch", "compiler")]
    return 2 if missing else 0


def _torch() -> Finding:
    try:
        import torch
    except ImportError:
        return Finding("torch", "missing", "nothing can run", "make setup, or pip install torch")
    return Finding("torch", "ok", f"{torch.__version__}, Python {platform.python_version()}")


def _machine() -> Finding:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    have = [flag for flag in _WANTED_FLAGS if flags and flag in flags[1].split()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    detail = f"{name[1] if name else platform.machine()}, {cores} cores, {memory:.0f} GiB"
    detail += f", {' '.join(have)}" if have else ""
    if cores < 2:
        return Finding("cpu", "limited", detail, "with one core the judge disturbs what it times")
    return Finding("cpu", "ok", detail)


def _compiler() -> Finding:
    from kernelwright.backends.toolchain import find_toolchain
    from kernelwright.core.errors import CompilerMissing

    try:
        return Finding("compiler", "ok", find_toolchain().version)
    except CompilerMissing as error:
        cost = "no cpp candidates and no torch.compile baseline"
        return Finding("compiler", "missing", cost, str(error))


def _openmp() -> Finding:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        return Finding("openmp", "missing", "needs the compiler first")
    program = "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }"
    command = [compiler, "-fopenmp", "-x", "c++", "-", "-o", os.devnull]
    built = subprocess.run(command, input=program, text=True, capture_output=True, check=False)
    if built.returncode:
        return Finding(
            "openmp", "missing", "kernels use one thread", "install libgomp's development files"
        )
    return Finding("openmp", "ok", "kernels use all cores")


def _cuda() -> Finding:
    nvcc = shutil.which("nvcc")
    device = Path("/dev/nvidia0").exists()
    if not nvcc and not device:
        return Finding("cuda", "missing", "CPU tasks only; this version judges on the CPU")
    if not device:
        return Finding("cuda", "limited", "nvcc without a device; this version judges on the CPU")
    return Finding("cuda", "limited", "a device is present; this version judges on the CPU")


def _sandbox() -> Finding:
    from kernelwright.sandbox import SANDBOX_TIER

    return Finding(
        "sandbox",
        "limited",
        f"tier {SANDBOX_TIER}: separate processes with limits, no namespaces",
        "T3 Verdicts say so and certify nothing; do not judge code you would not run",
    )


def _cache() -> Finding:
    from kernelwright.judge.session import default_cache

    folder = default_cache()
    if not os.access(folder, os.W_OK):
        return Finding("cache", "missing", str(folder), "set KERNELWRIGHT_CACHE to a folder")
    return Finding("cache", "ok", str(folder))


def _kernelbench() -> Finding:
    root = os.environ.get("KERNELBENCH_ROOT")
    if root and (Path(root) / "level1").is_dir():
        return Finding("kernelbench", "ok", root)
    return Finding(
        "kernelbench",
        "missing",
        "no kernelbench:LEVEL/PROBLEM tasks",
        "set KERNELBENCH_ROOT to the folder that holds level1 to level4",
    )
