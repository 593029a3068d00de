"""Turns a module and slot tensors into a call without arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature
from kernelwright.tasks.tensors import (
    flatten_outputs,
    module_tensors,
    owner_of,
)


class BindingError(Exception):
    """The module's tensors are not those of the reference; the text names the first difference."""


def bind(
    model: nn.Module,
    reference: Reference,
    shape: Shape,
    *,
    signature: Signature,
    tensors: Sequence[torch.Tensor],
    forward: Callable[..., Any] | None = None,
) -> Callable[[], list[torch.Tensor]]:
    """Makes the slot tensors the module's own inputs, parameters and buffers.

    Bytes rewritten in a slot are seen by the next call. State is copied into private memory at the
    start of each call and its new value returned after the module's outputs. Call it with gradients
    off: it adds as little as it can to what the module costs. Tensors are matched in
    slot order, so a submission's module may name its parameters as it likes.

    Args:
        model: the module; its parameters are replaced.
        reference: gives the Python scalars among the inputs.
        shape: named sizes.
        signature: of the reference at this shape.
        tensors: one per slot; may lie in read-only memory.
        forward: called in place of `model`, for a compiled version of it.

    Raises:
        BindingError: the module's parameters or buffers differ in number or shape.
    """
    n_inputs = sum(slot.role == "input" for slot in signature.slots)
    state = _bind_module(model, signature, tensors, n_inputs)
    arguments = _arguments(reference, shape, tensors[:n_inputs])
    target = model if forward is None else forward

    def call() -> list[torch.Tensor]:
        for one in state:
            one.reset()
        result = target(*arguments)
        if type(result) is torch.Tensor and not state:
            return [result]
        outputs = flatten_outputs(result)
        if outputs is None:
            raise TypeError("forward returned something that is not a tensor")
        return [*outputs, *(one.value() for one in state)]

    return call


class _State(NamedTuple):
    """A buffer or attribute that forward writes, in place or by rebinding it."""

    owner: nn.Module
    key: str
    private: torch.Tensor
    given: torch.Tensor

    def reset(self) -> None:
        self.private.copy_(self.given)
        if getattr(self.owner, self.key) is not self.private:
            setattr(self.owner, self.key, self.private)

    def value(self) -> torch.Tensor:
        return getattr(self.owner, self.key).clone()


def _arguments(reference: Reference, shape: Shape, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The arguments of forward: slot tensors where tensors stand, scalars as they are."""
    with torch.device("meta"):
        pattern = reference.make_inputs(shape, seed=0)
    given = iter(tensors)
    return [next(given) if isinstance(value, torch.Tensor) else value for value in pattern]


def _bind_module(
    model: nn.Module, signature: Signature, tensors: Sequence[torch.Tensor], n_inputs: int
) -> list[_State]:
    mine = list(module_tensors(model))
    slots = signature.slots[n_inputs:]
    if len(mine) != len(slots):
        raise BindingError(f"the module has {len(mine)} tensors, the reference {len(slots)}")
    state = []
    pairs = zip(mine, slots, tensors[n_inputs:], strict=True)
    for (kind, name, own), slot, given in pairs:
        if tuple(own.shape) != slot.shape or str(own.dtype) != f"torch.{slot.dtype}":
            raise BindingError(
                f"{name} is {own.dtype}{list(own.shape)}, the reference's {slot.name} is "
                f"torch.{slot.dtype}{list(slot.shape)}"
            )
        if slot.role == "state":
            owner, key = owner_of(model, name)
            state.append(_State(owner, key, own.detach(), given))
        elif kind == "attribute":
            owner, key = owner_of(model, name)
            setattr(owner, key, given)
        else:
            own.data = given
    return state
