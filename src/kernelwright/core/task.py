"""Task: what must be computed, and on which shapes the answer has to hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kernelwright.core.record import Record

DeviceKind = Literal["cpu", "cuda"]
PrecisionClass = Literal["native", "strict", "tf32", "bf16", "fp16", "fp8", "fp4"]


class InputSpec(Record):
    """One input tensor given on the command line, such as `4096x1024:float32`."""

    shape: tuple[int, ...]
    dtype: str = "float32"


class Dim(Record):
    """One named size of the shape domain and the closed range it may take."""

    name: str
    low: int
    high: int


class BuiltinOrigin(Record):
    """A reference that ships with the package."""

    kind: Literal["builtin"] = "builtin"
    name: str


class FileOrigin(Record):
    """A Python file in KernelBench's format: `Model`, `get_inputs`, `get_init_inputs`."""

    kind: Literal["file"] = "file"
    path: str


class KernelBenchOrigin(Record):
    """A numbered problem in a KernelBench checkout."""

    kind: Literal["kernelbench"] = "kernelbench"
    path: str
    level: int
    problem: int


class ModuleOrigin(Record):
    """An `nn.Module` class in a file or an importable module, with the inputs it is called on."""

    kind: Literal["module"] = "module"
    target: str
    """`path/to/file.py` or a dotted module name."""
    class_name: str
    inputs: tuple[InputSpec, ...]


Origin = Annotated[
    BuiltinOrigin | FileOrigin | KernelBenchOrigin | ModuleOrigin, Field(discriminator="kind")
]


class Task(Record):
    """The identity of a Task: enough to load the same reference again."""

    name: str
    origin: Origin
    source_hash: str
    """SHA-256 of the reference's source text."""
    domain: tuple[Dim, ...] = ()
    """Empty: the Task holds at exactly the shapes its inputs have."""
    precision: PrecisionClass = "native"
    device: DeviceKind = "cpu"
    """Where it is computed."""

    @property
    def one_shape(self) -> bool:
        """Whether the Task is judged at exactly one shape."""
        return not self.domain
