"""Under which conditions a figure was measured: it goes into every result."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

import kernelwright
from kernelwright.backends import find_toolchain


def conditions() -> dict[str, object]:
    """Machine, date, versions, commit and command of this run."""
    cpu = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "compiler": find_toolchain().version,
        "kernelwright": kernelwright.__version__,
        "commit": commit.stdout.strip(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
