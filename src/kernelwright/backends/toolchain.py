"""The C++ compiler, what it is, and for which processor it compiles."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.errors import CompilerMissing

INCLUDE = Path(__file__).with_name("include")
FLAGS = (
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fopenmp",
    "-std=c++17",
    "-fPIC",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Werror=return-type",
)
"""No -ffast-math: it breaks NaN and Inf, and at link time sets flush-to-zero at load (gcc < 13)."""
LINK_FLAGS = ("-shared", "-Wl,-z,now", "-Wl,--no-undefined", "-lm")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler on PATH. `identity` goes into cache keys and Verdicts."""

    path: str
    version: str
    cpu: str

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where it is installed, with what it calls; never a whole home."""
        where = [Path(self.path).parent, Path(self.path).resolve().parent]
        prefix = where[1].parent
        if where[1].name == "bin" and prefix not in (Path.home(), Path("/")):
            where.append(prefix)
        return tuple(where)

    @property
    def identity(self) -> str:
        """Compiler version and the processor features that -march=native stands for."""
        return f"{self.version} | {self.cpu}"


def find_toolchain() -> Toolchain:
    """The compiler named by $CXX, else g++. Raises CompilerMissing."""
    name = os.environ.get("CXX", "g++")
    path = shutil.which(name)
    if path is None:
        raise CompilerMissing(name, "g++")
    return Toolchain(path, _version(path), cpu_features())


@functools.cache
def _version(path: str) -> str:
    return subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


@functools.cache
def cpu_features() -> str:
    """The processor's name and a digest-worthy list of its features, as the kernel reports them."""
    fields = dict.fromkeys(("model name", "flags", "Features"), "")
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in fields and not fields[key.strip()]:
            fields[key.strip()] = value.strip()
    return " ".join(value for value in fields.values() if value)
