"""What an exported kernel is told of its Task: where it was judged."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.tasks.reference import Reference
from kernelwright.tasks.slots import Signature, read_signature
from kernelwright.tasks.tensors import flatten_outputs


def judged_where(reference: Reference, signature: Signature) -> dict[str, Any]:
    """Arguments of the exported `Kernel`, by name."""
    return {
        "slots": _patterns(reference, signature),
        "arguments": _arguments(reference),
        "sizes": reference.default_shape,
        "domain": reference.domain,
        "training": _mode_that_matters(reference),
    }


def _patterns(reference: Reference, signature: Signature) -> list[dict[str, Any]]:
    """Each slot's sizes, a named one by its name, and its strides unless it is contiguous."""
    others = {name: _nearby(reference, name) for name in reference.domain}
    found = []
    for at, slot in enumerate(signature.slots):
        sizes: list[int | str] = list(slot.shape)
        for name, other in others.items():
            changed = other.slots[at].shape
            for axis, size in enumerate(slot.shape):
                if changed[axis] != size:
                    exact = size == reference.default_shape[name] and isinstance(sizes[axis], int)
                    sizes[axis] = name if exact else size
        dense = list(slot.strides) == list(torch.empty(slot.shape, device="meta").stride())
        strides = None if dense else list(slot.strides)
        found.append({"name": slot.name, "dtype": slot.dtype, "sizes": sizes, "strides": strides})
    return found


def _nearby(reference: Reference, name: str) -> Signature:
    """The signature with one named size changed by one."""
    low, high = reference.domain[name]
    size = reference.default_shape[name]
    changed = size + 1 if size < high else max(low, size - 1)
    with torch.device("meta"):
        return read_signature(reference, reference.default_shape | {name: changed})


def _arguments(reference: Reference) -> list[int | float | bool | None]:
    """The arguments of forward; None where a tensor stands."""
    inputs = reference.make_inputs(reference.default_shape, seed=0)
    return [None if isinstance(value, torch.Tensor) else value for value in inputs]


def _mode_that_matters(reference: Reference) -> bool | None:
    """The mode the reference was judged in, where `.train()` and `.eval()` differ; else None."""
    shape = reference.default_shape
    model = reference.build(shape, seed=0)
    judged = model.training
    results = []
    for mode in (True, False):
        with torch.no_grad():
            result = model.train(mode)(*reference.make_inputs(shape, seed=0))
        results.append(flatten_outputs(result) or [])
    same = all(torch.equal(a, b) for a, b in zip(results[0], results[1], strict=True))
    return None if same else judged
