"""Signature: every tensor a call reads and writes, told apart by the role it plays.

input      an argument of forward; new numbers in every call
parameter  redrawn between trials
statistic  running mean or variance that forward only reads; redrawn like a parameter
state      a buffer that forward writes; its new value is an output that is compared
constant   integer, boolean or never-written buffers and plain tensor attributes; never change
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from kernelwright.tasks.reference import Reference, Shape, _one_line, _unusable


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
    random: bool
    """forward draws random numbers: two calls on the same inputs differ."""
    notes: tuple[str, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Signature:
        """The inverse of `dataclasses.asdict` through JSON, which knows no tuples."""
        slots = tuple(Slot(**_tuples(slot)) for slot in data["slots"])
        outputs = tuple(OutputSlot(**_tuples(output)) for output in data["outputs"])
        return cls(slots, outputs, data["random"], tuple(data["notes"]))


def read_signature(reference: Reference, shape: Shape) -> Signature:
    """Builds the module, calls it, and reads what it touches. Works on the meta device too.

    Raises:
        TaskUnusable: forward fails, writes an input, or returns anything but tensors.
    """
    model = reference.build(shape, seed=0)
    inputs = reference.make_inputs(shape, seed=0)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    before = {name: buffer._version for name, buffer in model.named_buffers()}
    versions = [tensor._version for tensor in tensors]
    copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
    outputs = _forward(reference, model, inputs)
    where = reference.spec.target
    if [tensor._version for tensor in tensors] != versions:
        _unusable(where, "forward writes one of its inputs", "Return a new tensor instead")
    written = {
        name for name, buffer in model.named_buffers() if _changed(buffer, before, copies, name)
    }
    slots = [*_inputs(tensors), *_module_slots(model, written)]
    described = [_output(f"output{at}", "output", tensor) for at, tensor in enumerate(outputs)]
    state = [slot for slot in slots if slot.role == "state"]
    described += [OutputSlot(s.name, "state", s.dtype, s.shape, s.strides) for s in state]
    random = _is_random(reference, shape, inputs, outputs)
    return Signature(tuple(slots), tuple(described), random, _notes(random, outputs, tensors))


def module_tensors(model: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Kind (`parameter`, `buffer`, `attribute`), qualified name and tensor, in slot order."""
    seen: set[int] = set()
    for name, parameter in model.named_parameters():
        seen.add(id(parameter))
        yield "parameter", name, parameter
    for name, buffer in model.named_buffers():
        seen.add(id(buffer))
        yield "buffer", name, buffer
    for prefix, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                yield "attribute", f"{prefix}.{key}" if prefix else key, value


def _module_slots(model: nn.Module, written: set[str]) -> Iterator[Slot]:
    statistics = {
        f"{prefix}.{key}" if prefix else key
        for prefix, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._NormBase)
        for key in ("running_mean", "running_var")
    }
    for kind, name, tensor in module_tensors(model):
        if kind == "parameter":
            role = "parameter" if tensor.is_floating_point() else "constant"
        elif name in written:
            role = "state"
        else:
            role = "statistic" if name in statistics else "constant"
        yield Slot(name, role, _dtype(tensor), tuple(tensor.shape), _strides(tensor))


def flatten_outputs(result: Any) -> list[torch.Tensor] | None:
    """The tensors of a forward's result in order; None where it holds anything else."""
    leaves, _ = tree_flatten(result)
    leaves = [leaf for leaf in leaves if leaf is not None]
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    return leaves


def _forward(reference: Reference, model: nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    where = reference.spec.target
    try:
        with torch.no_grad():
            result = model(*inputs)
    except Exception as error:
        _unusable(where, f"forward fails: {_one_line(error)}")
    outputs = flatten_outputs(result)
    if outputs is None:
        _unusable(where, f"forward returns {type(result).__name__}, not tensors")
    return outputs


def _changed(
    buffer: torch.Tensor, before: dict[str, int], copies: dict[str, torch.Tensor], name: str
) -> bool:
    if buffer.device.type == "meta":
        return buffer._version != before[name]
    return buffer._version != before[name] or not torch.equal(buffer, copies[name])


def _is_random(
    reference: Reference, shape: Shape, inputs: list[Any], outputs: list[torch.Tensor]
) -> bool:
    """Two fresh modules, same weights and inputs, another state of torch's generator."""
    if any(output.device.type == "meta" for output in outputs):
        return False
    torch.manual_seed(1)
    first = _forward(reference, reference.build(shape, seed=0), inputs)
    model = reference.build(shape, seed=0)
    torch.manual_seed(2)
    second = _forward(reference, model, inputs)
    return any(not _alike(a, b) for a, b in zip(first, second, strict=True))


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to the scheduling noise of a threaded reduction."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    scale = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)


def _notes(
    random: bool, outputs: list[torch.Tensor], inputs: list[torch.Tensor]
) -> tuple[str, ...]:
    notes = []
    if random:
        notes.append("random reference: forward draws its own numbers")
    storages = {value.untyped_storage()._cdata for value in inputs}
    if any(output.untyped_storage()._cdata in storages for output in outputs):
        notes.append("the reference returns a view of its input")
    return tuple(notes)


def _inputs(tensors: list[torch.Tensor]) -> list[Slot]:
    return [
        Slot(f"input{at}", "input", _dtype(t), tuple(t.shape), _strides(t))
        for at, t in enumerate(tensors)
    ]


def _output(name: str, role: str, tensor: torch.Tensor) -> OutputSlot:
    return OutputSlot(name, role, _dtype(tensor), tuple(tensor.shape), _strides(tensor))


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.stride())


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
