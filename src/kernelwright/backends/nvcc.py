"""nvcc: where it is, for which architecture it compiles, and what its assembler says."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernelwright.backends.artefact import KernelFacts
from kernelwright.core.errors import CompilerMissing

DEFAULT_ARCHITECTURE = "sm_90a"
"""Hopper with its own instructions (wgmma, setmaxnreg), where no device says otherwise."""
FLAGS = ("-O3", "-std=c++17", "-Xcompiler", "-fPIC", "-shared", "-Xptxas", "-v", "-keep")
_USUAL = "/usr/local/cuda/bin/nvcc"
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_WGMMA = re.compile(r"\bwgmma\.mma_async\b")


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A CUDA compiler and the one architecture it compiles for."""

    path: str
    version: str
    architecture: str

    @property
    def home(self) -> Path:
        """The toolkit's folder, with its headers and libraries."""
        return Path(self.path).resolve().parents[1]

    @property
    def target(self) -> tuple[str, ...]:
        """Machine code for exactly this architecture and no PTX, which a driver would compile."""
        number = self.architecture.removeprefix("sm_")
        return ("-gencode", f"arch=compute_{number},code=sm_{number}")


def find_nvcc() -> Nvcc:
    """The compiler named by $NVCC, else nvcc, else that of /usr/local/cuda.

    It compiles for $KERNELWRIGHT_CUDA_ARCH, else for the first device, else for sm_90a.

    Raises:
        CompilerMissing: there is none.
    """
    name = os.environ.get("NVCC", "nvcc")
    path = shutil.which(name) or shutil.which(_USUAL)
    if path is None:
        raise CompilerMissing(name, "the CUDA toolkit")
    return Nvcc(path, _version(path), target_architecture())


def target_architecture() -> str:
    """`$KERNELWRIGHT_CUDA_ARCH`, else the first device's own, else the default."""
    return os.environ.get("KERNELWRIGHT_CUDA_ARCH") or _own_architecture() or DEFAULT_ARCHITECTURE


@functools.cache
def _own_architecture() -> str | None:
    """Asked of the driver's tool, since asking CUDA would start it in this process."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    asked = [tool, "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    found = re.match(r"(\d+)\.(\d)\s*$", done.stdout.splitlines()[0]) if done.stdout else None
    if found is None:
        return None
    number = "".join(found.groups())
    return f"sm_{number}a" if int(number) >= 90 else f"sm_{number}"


@functools.cache
def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    return lines[0].strip() if lines else "nvcc"


def read_facts(log: str, ptx: str) -> list[KernelFacts]:
    """One record per kernel that the assembler names in its log (`-Xptxas -v`)."""
    wgmma = len(_WGMMA.findall(ptx))
    parts = _ENTRY.split(log)[1:]
    facts = []
    for name, said in zip(parts[::2], parts[1::2], strict=True):
        spills, used, shared = _SPILLS.search(said), _USED.search(said), _SHARED.search(said)
        facts.append(
            KernelFacts(
                name,
                registers=int(used[1]) if used else 0,
                shared_bytes=int(shared[1]) if shared else 0,
                spill_bytes=int(spills[2]) + int(spills[3]) if spills else 0,
                wgmma=wgmma,
            )
        )
    return facts
