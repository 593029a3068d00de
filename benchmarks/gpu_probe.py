"""What a CUDA device and its host allow a judge to rely on.

    python benchmarks/gpu_probe.py [--only SECTION ...] [--json]

Sections: `host` (sandbox, versions), `ceilings` (copy rate), `walls` (which transports work behind
which walls), `exposure` (what a memory handle shows beside its own allocation), `staging` (through
page-locked host memory), `switches` (a second process on the device), `round_trip` (wake, launch,
wait, answer), `quiescence` (how a stopped process's work on the device shows), `nvml`, `ncu`. Needs
cuda-bindings and nvidia-ml-py; no setting of the card is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from conditions import conditions
from probe import noise, transports
from probe.driver import MIB, Device
from probe.walls import in_process

from kernelwright.sandbox import probe_jail

COUNTERS = ("dram__bytes_read.sum", "gpu__time_duration.sum")
NCU_KERNEL = """
import torch
x = torch.ones(1 << 24, device="cuda")
(x + 1).sum().item()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.only:
        began = time.perf_counter()
        found[name] = SECTIONS[name]()
        taken = time.perf_counter() - began
        print(f"{name}: {taken:.1f} s", file=sys.stderr, flush=True)
        if not options.json:
            print(json.dumps({name: found[name]}, indent=1), flush=True)
    if options.json:
        print(json.dumps({**found, "conditions": conditions()}, indent=1))


def host() -> dict[str, Any]:
    jail = probe_jail()
    nodes = [path.name for path in Path("/dev").glob("nvidia*")]
    return {
        "kernel": os.uname().release,
        "tier": jail.tier,
        "walls": asdict(jail),
        "bubblewrap": shutil.which("bwrap") is not None,
        "uid": os.getuid(),
        "device_nodes": sorted(nodes),
        "nvidia_smi": _output(
            "nvidia-smi",
            "--query-gpu=name,driver_version,compute_mode,memory.total",
            "--format=csv,noheader",
        ),
        "nvcc": _output("nvcc", "--version")[-120:],
    }


def ceilings() -> dict[str, Any]:
    def measure() -> dict[str, Any]:
        device = Device()
        size = 4096 * MIB
        a, b = device.allocate(size), device.allocate(size)
        copy_s = device.seconds(lambda: device.copy(b, a, size))
        add_s = device.seconds(lambda: device.add(a, size, 1.0))
        empty_s = device.seconds(lambda: device.launch("spin", 0), repeats=200)
        wait_s = device.seconds(lambda: None, repeats=200)
        return {
            "cuda_start_ms": round(1e3 * device.start_s, 1),
            "copy_gb_s": round(2 * size / copy_s / 1e9),
            "read_and_write_kernel_gb_s": round(2 * size / add_s / 1e9),
            "empty_kernel_and_wait_us": round(1e6 * empty_s, 2),
            "wait_alone_us": round(1e6 * wait_s, 2),
        }

    return in_process(measure)


def ncu() -> dict[str, Any]:
    """As this user and as nobody: the counters of a small program."""
    if shutil.which("ncu") is None:
        return {"present": False}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        script = Path(folder, "kernel.py")
        script.write_text(NCU_KERNEL)
        asked = ["ncu", "--clock-control", "none", "--csv", "--metrics", ",".join(COUNTERS)]
        command = [*asked, sys.executable, str(script)]
        found: dict[str, Any] = {"present": True, "version": _output("ncu", "--version")[-60:]}
        for who, user in (("this user", None), ("nobody", 65534)):
            if user is not None and os.getuid() != 0:
                continue
            began = time.perf_counter()
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                user=user,
                cwd=folder,
                env={**os.environ, "HOME": folder, "TMPDIR": "/tmp"},
            )
            found[who] = {
                "status": done.returncode,
                "seconds": round(time.perf_counter() - began, 1),
                "counters": sum("dram__bytes_read" in line for line in done.stdout.splitlines()),
                "tail": (done.stdout + done.stderr)[-300:],
            }
        return found


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return str(error)
    return done.stdout.strip()


SECTIONS: dict[str, Callable[[], Any]] = {
    "host": host,
    "ceilings": ceilings,
    "walls": transports.across_walls,
    "exposure": transports.what_a_handle_exposes,
    "staging": transports.through_the_host,
    "switches": noise.switches,
    "round_trip": noise.round_trip,
    "quiescence": noise.quiescence,
    "nvml": lambda: in_process(noise.clocks),
    "ncu": ncu,
}

if __name__ == "__main__":
    main()
