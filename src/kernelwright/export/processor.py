"""What a library built here needs of a processor."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kernelwright.backends.toolchain import FLAGS, Toolchain

_OTHERWISE = {"sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq", "sha": "sha_ni"}
"""Features that the compiler and /proc/cpuinfo call by different names."""
_NEVER_EMITTED = re.compile(r"mmx|fxsr|xsave.*|clflushopt|clwb|fsgsbase|rdpid|rdrand|rdseed")
"""Features that are used only where a source asks for them, and that hypervisors often hide."""


def needed_features(toolchain: Toolchain) -> tuple[str, ...]:
    """Names in /proc/cpuinfo of the features that `-march=native` lets the compiler use here."""
    command = [toolchain.path, *FLAGS, "-dM", "-E", "-x", "c++", "/dev/null"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    enabled = {name.lower() for name in re.findall(r"#define __(\w+?)__ 1\n", told)}
    enabled = {_OTHERWISE.get(name, name).replace("_", "") for name in enabled}
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    here = next((line for line in lines if line.startswith("flags")), "").partition(":")[2]
    return tuple(
        flag
        for flag in here.split()
        if flag.replace("_", "") in enabled and not _NEVER_EMITTED.fullmatch(flag)
    )
