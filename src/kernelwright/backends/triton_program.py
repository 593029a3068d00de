"""Compiles what a Triton Candidate launches, without a device. Runs behind the compiler's walls.

    python -I triton_program.py CANDIDATE.py ENTRY SPEC.json SM OUT.json

The entry is called on tensors without memory, with a driver in place that only compiles: so each
kernel is specialised exactly as its launch would. `SPEC.json` lists dtype, shape and strides of the
inputs and of the outputs. The Candidate's own Python runs here; what is written is its own word.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.jit import JITFunction


class CompileOnly(DriverBase):
    """Stands where the driver of a device would, and names the device compiled for."""

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    @classmethod
    def is_active(cls) -> bool:
        """Always."""
        return True

    def get_current_target(self) -> GPUTarget:
        """The architecture compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """There is one."""
        return 0

    def get_current_stream(self, _: int = 0) -> int:
        """Nothing is launched."""
        return 0

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Nothing is launched."""
        return ty

    def get_active_torch_device(self) -> torch.device:
        """Where no tensor has memory."""
        return torch.device("meta")

    def get_benchmarker(self) -> Any:
        """Refuses: an autotuner would time."""
        raise RuntimeError("nothing is timed while compiling: name one configuration")


def main() -> None:
    """See the module."""
    path, entry, spec_path, capability, out = sys.argv[1:]
    spec = json.loads(Path(spec_path).read_text())
    triton.runtime.driver.set_active(CompileOnly(int(capability)))
    made = _record_launches()
    function = getattr(_load(path), entry)
    function(*(_tensors(spec[name]) for name in ("inputs", "outputs")))
    kernels = [{"ptx": kernel.asm["ptx"], "shared": kernel.metadata.shared} for kernel in made]
    answer = {"log": "".join(_assemble(one["ptx"]) for one in kernels), "kernels": kernels}
    Path(out).write_text(json.dumps(answer))


def _record_launches() -> list[Any]:
    made: list[Any] = []
    run = JITFunction.run

    def compile_alone(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **named)
        made.append(kernel)
        return kernel

    JITFunction.run = compile_alone
    return made


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tensors(layouts: list[dict[str, Any]]) -> list[torch.Tensor]:
    return [
        torch.empty_strided(
            one["shape"], one["strides"], dtype=getattr(torch, one["dtype"]), device="meta"
        )
        for one in layouts
    ]


def _assemble(ptx: str) -> str:
    """The assembler's report: Triton keeps none of it until a kernel is loaded."""
    target = next(line.split()[1] for line in ptx.splitlines() if line.startswith(".target"))
    found = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [str(found), "-v", f"--gpu-name={target}", file.name, "-o", "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


if __name__ == "__main__":
    main()
