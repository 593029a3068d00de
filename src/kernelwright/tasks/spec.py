"""Where a reference is, as plain data: no torch, so that Tasks can be listed at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """Where a reference is; plain data that travels to a worker as JSON."""

    kind: str
    """`file` (KernelBench's format) or `module` (a class and the inputs it is called on)."""
    target: str
    """Absolute path of a `.py` file, or a dotted module name."""
    class_name: str = "Model"
    inputs: tuple[tuple[tuple[int, ...], str], ...] = ()
    """For `module`: shape and dtype of each input."""
    device: str = "cpu"
    """Where it is computed: `cpu` or `cuda`."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReferenceSpec:
        """The inverse of `dataclasses.asdict` through JSON, which knows no tuples."""
        inputs = tuple((tuple(shape), dtype) for shape, dtype in data["inputs"])
        return cls(data["kind"], data["target"], data["class_name"], inputs, data["device"])
