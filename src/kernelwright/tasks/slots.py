"""Signature: every tensor a call reads and writes, told apart by the role it plays.

input      an argument of forward; new numbers in every call
parameter  redrawn between trials
statistic  running mean or variance that forward only reads; redrawn like a parameter
state      a buffer or tensor attribute that forward writes; its new value is an output too
constant   integer, boolean or never-written buffers and plain tensor attributes; never change
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.tasks.observe import Observation, observe
from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.tensors import flatten_outputs, module_tensors

__all__ = [
    "OutputSlot",
    "Signature",
    "Slot",
    "flatten_outputs",
    "module_tensors",
    "read_signature",
]


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor a call reads. Strides are in elements."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputSlot:
    """One tensor a call returns; role `output` or `state`."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Slots in order: arguments of forward, parameters, buffers, plain tensor attributes."""

    slots: tuple[Slot, ...]
    outputs: tuple[OutputSlot, ...]
    """What forward returns, then the new value of every state slot."""
    random: bool
    """forward draws random numbers, or remembers: two calls on the same inputs differ."""
    notes: tuple[str, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Signature:
        """The inverse of `dataclasses.asdict` through JSON, which knows no tuples."""
        slots = tuple(Slot(**_tuples(slot)) for slot in data["slots"])
        outputs = tuple(OutputSlot(**_tuples(output)) for output in data["outputs"])
        return cls(slots, outputs, data["random"], tuple(data["notes"]))


def read_signature(reference: Reference, shape: Shape) -> Signature:
    """Builds the module, calls it, and reads what it touches.

    Under `torch.device("meta")` it needs no memory, so the largest reference can be read; then only
    draws through torch's own operators are noticed.

    Raises:
        TaskUnusable: forward fails, writes an input or parameter, or returns no tensors.
    """
    seen = observe(reference, shape)
    slots = [*_input_slots(seen.inputs), *_module_slots(seen)]
    outputs = [*_output_slots(seen.outputs, slots)]
    return Signature(tuple(slots), tuple(outputs), seen.random, seen.notes)


def _input_slots(inputs: list[Any]) -> Iterator[Slot]:
    """A Python scalar among the arguments is part of the Task itself and has no slot."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    for at, tensor in enumerate(tensors):
        yield Slot(f"input{at}", "input", *_layout(tensor))


def _module_slots(seen: Observation) -> Iterator[Slot]:
    for name, (kind, tensor, *_) in seen.held.items():
        if name in seen.written:
            role = "state"
        elif kind == "parameter" and tensor.is_floating_point():
            role = "parameter"
        else:
            role = "statistic" if name in seen.running else "constant"
        yield Slot(name, role, *_layout(tensor))


def _output_slots(outputs: list[torch.Tensor], slots: list[Slot]) -> Iterator[OutputSlot]:
    for at, tensor in enumerate(outputs):
        yield OutputSlot(f"output{at}", "output", *_layout(tensor))
    for slot in slots:
        if slot.role == "state":
            yield OutputSlot(slot.name, "state", slot.dtype, slot.shape, slot.strides)


def _layout(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride())


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
