"""References written on the spot, and everything that judges one at a shape."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.judge.verify import Comparison, Oracle, compare
from kernelwright.tasks.bind import bind
from kernelwright.tasks.catalog import find_task, reference_spec
from kernelwright.tasks.draw import COHERENT, Drawer
from kernelwright.tasks.reference import Reference, ReferenceSpec, Shape, load_reference
from kernelwright.tasks.slots import Signature, read_signature

Values = list[torch.Tensor]


def load_source(folder: Path, source: str, *, name: str = "task.py") -> Reference:
    """Writes a task file and loads it."""
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return load_reference(ReferenceSpec("file", str(path)))


def module_source(body: str, inputs: str = "[torch.randn(8, 16)]", init: str = "[]") -> str:
    """A task file around the body of `Model`."""
    model = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return (
        f"import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n{model}\n\n"
        f"def get_inputs():\n    return {inputs}\n\n"
        f"def get_init_inputs():\n    return {init}\n"
    )


@dataclass
class Setting:
    """One reference at one shape, with the judge's tools."""

    reference: Reference
    shape: Shape
    signature: Signature
    drawer: Drawer
    oracle: Oracle

    def eager(self, values: Values) -> Values:
        """What the reference returns, in memory of its own."""
        model = self.reference.build(self.shape, seed=0)
        call = bind(model, self.reference, self.shape, signature=self.signature, tensors=values)
        with torch.no_grad():
            return [output.clone() for output in call()]

    def judge(
        self, kernel: Callable[[Values], Values], family: str, *, counter: int = 1
    ) -> Comparison:
        """Compares a kernel's outputs on fresh values."""
        values = self.drawer.draw(family, counter=counter, weights=counter)
        truth = self.oracle(values)
        with torch.no_grad():
            outputs = kernel(values)
        return compare(
            outputs,
            truth,
            self.eager(values),
            precision="native",
            sensitivity=lambda: self.oracle.sensitivity(values, truth, coherent=family in COHERENT),
        )


def setting(reference: Reference, shape: Shape | None = None, *, key: int = 7) -> Setting:
    """Reads the signature and prepares drawer and oracle."""
    sizes = reference.default_shape if shape is None else shape
    signature = read_signature(reference, sizes)
    drawer = Drawer(reference, sizes, signature, key=key)
    return Setting(reference, sizes, signature, drawer, Oracle(reference, sizes, signature))


def builtin(name: str, **shape: int) -> Setting:
    """A built-in at a shape small enough for a test."""
    return setting(load_reference(reference_spec(find_task(name))), shape)
