"""Runs a reference and sees what forward writes, draws and returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.refuse import one_line, refuse
from kernelwright.tasks.tensors import (
    flatten_outputs,
    module_tensors,
    owner_of,
    running_statistics,
)

_PROBABILITIES = ("p", "dropout_p", "dropout")


class Observation(NamedTuple):
    """What one forward did."""

    inputs: list[Any]
    held: dict[str, Held]
    """The module's tensors as they were before, in slot order."""
    running: set[str]
    """Names of the norms' running means and variances."""
    outputs: list[torch.Tensor]
    written: set[str]
    """Buffers and tensor attributes whose value carries over from one call to the next."""
    random: bool
    notes: tuple[str, ...]


class Held(NamedTuple):
    """A tensor of the module as it was before forward."""

    kind: str
    tensor: torch.Tensor
    version: int
    copy: torch.Tensor | None
    """None for a parameter, and where there is no memory to copy."""


def observe(reference: Reference, shape: Shape) -> Observation:
    """Builds the module and calls it: once on the meta device, else at least twice.

    Raises:
        TaskUnusable: forward fails, writes an input or parameter, or returns no tensors.
    """
    where = reference.spec.target
    model = reference.build(shape, seed=0)
    inputs = reference.make_inputs(shape, seed=0)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    held = {name: _hold(kind, tensor) for kind, name, tensor in module_tensors(model)}
    versions = [tensor._version for tensor in tensors]
    with _WatchDraws() as draws:
        outputs = _forward(where, model, inputs)
    if [tensor._version for tensor in tensors] != versions:
        refuse(where, "forward writes one of its inputs", "Return a new tensor instead")
    written = _written(where, model, held)
    notes = _aliases(outputs, tensors, [one.tensor for one in held.values()])
    if any(output.device.type == "meta" for output in outputs):
        random = draws.seen
    else:
        again = _Repeat(where, model, inputs, held, set(written))
        first = [output.detach().clone() for output in outputs]
        written -= again.overwritten_unread(first)
        random = not again.agrees(first)
    running = set(running_statistics(model))
    return Observation(inputs, held, running, outputs, written, random, _with(notes, random))


def _hold(kind: str, tensor: torch.Tensor) -> Held:
    keeps = kind == "parameter" or tensor.device.type == "meta"
    return Held(kind, tensor, tensor._version, None if keeps else tensor.detach().clone())


def _forward(where: str, model: nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    try:
        with torch.no_grad():
            result = model(*inputs)
    except Exception as error:
        refuse(where, f"forward fails: {one_line(error)}")
    outputs = flatten_outputs(result)
    if outputs is None:
        refuse(
            where,
            f"forward returns {type(result).__name__}, not tensors",
            "Return a tensor, or a tuple, list or dict of tensors",
        )
    return outputs


def _written(where: str, model: nn.Module, held: dict[str, Held]) -> set[str]:
    # Batch norm's kernel writes its statistics without a trace on the meta device.
    written = {name for name, updated in running_statistics(model).items() if updated}
    for name, before in held.items():
        owner, key = owner_of(model, name)
        now = getattr(owner, key)
        if before.kind == "parameter":
            if now._version != before.version:
                refuse(where, f"forward writes its parameter {name}", "Make it a buffer")
        elif _changed(now, before):
            if not isinstance(now, torch.Tensor) or now.shape != before.tensor.shape:
                refuse(where, f"forward changes the shape of {name}", "Keep its shape")
            written.add(name)
    return written


def _changed(now: Any, before: Held) -> bool:
    if now is before.tensor:
        touched = now._version != before.version
        return touched or not (before.copy is None or torch.equal(now, before.copy))
    return before.copy is None or not isinstance(now, torch.Tensor) or not _same(now, before.copy)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


class _Repeat:
    """Further calls from the state the module was in before the first."""

    def __init__(
        self,
        where: str,
        model: nn.Module,
        inputs: list[Any],
        held: dict[str, Held],
        written: set[str],
    ) -> None:
        self._where, self._model, self._inputs = where, model, inputs
        self._held, self._written = held, written

    def agrees(self, first: list[torch.Tensor]) -> bool:
        """Whether the outputs stay the same when torch's generator is in another state."""
        self._restore()
        torch.manual_seed(1)
        again = _forward(self._where, self._model, self._inputs)
        return len(again) == len(first) and all(map(_alike, first, again))

    def overwritten_unread(self, first: list[torch.Tensor]) -> set[str]:
        """Attributes that forward sets but never reads, such as a weight derived in a hook."""
        unread = set()
        for name in self._written:
            kept = self._held[name].copy
            if self._held[name].kind != "attribute" or kept is None:
                continue
            self._restore()
            owner, key = owner_of(self._model, name)
            setattr(owner, key, ~kept if kept.dtype is torch.bool else kept + 1)
            torch.manual_seed(1)
            if all(map(torch.equal, first, _forward(self._where, self._model, self._inputs))):
                unread.add(name)
        return unread

    def _restore(self) -> None:
        for name in self._written:
            copy = self._held[name].copy
            assert copy is not None
            owner, key = owner_of(self._model, name)
            setattr(owner, key, copy.clone())


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to the scheduling noise of a threaded reduction."""
    if a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    scale = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)


def _aliases(
    outputs: list[torch.Tensor], inputs: list[torch.Tensor], held: list[torch.Tensor]
) -> tuple[str, ...]:
    def storages(tensors: list[torch.Tensor]) -> set[int]:
        return {tensor.untyped_storage()._cdata for tensor in tensors}

    returned = storages(outputs)
    notes = []
    if returned & storages(inputs):
        notes.append("the reference returns a view of its input")
    if returned & storages(held):
        notes.append("the reference returns a view of its parameter or buffer")
    return tuple(notes)


def _with(notes: tuple[str, ...], random: bool) -> tuple[str, ...]:
    drawn = "random reference: two calls of forward on the same inputs differ"
    return (drawn, *notes) if random else notes


class _WatchDraws(TorchDispatchMode):
    """Whether an operator that consumes random numbers ran, dropout of nothing left out."""

    seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            names = [argument.name for argument in func._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            chances = [given[name] for name in _PROBABILITIES if name in given]
            self.seen |= not (chances and not any(chances)) and not _unused_dropout(names, given)
        return func(*args, **(kwargs or {}))


def _unused_dropout(names: list[str], given: dict[str, Any]) -> bool:
    """A probability that was left at its default, which is zero in every attention operator."""
    return "dropout_p" in names and "dropout_p" not in given
