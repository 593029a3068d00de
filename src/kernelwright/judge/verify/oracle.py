"""The truth: the reference in float64 on the same, already rounded, inputs and weights.

Real references hard-code `.float()` and `dtype=torch.float32` and keep plain tensor attributes, so
`.double()` alone narrows or raises. The promotion therefore happens at the dispatcher, below every
such line: floating tensors and dtypes become float64 in each ATen call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kernelwright.tasks.bind import bind
from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_SIGNS = 2
_STEP = 2.0**-26
"""Relative step of the differences: half the digits of float64, so 2^-26 of S is lost to rounding
and as much to curvature, while kinks (max, relu) at the inputs' own scale are not stepped over."""


class _Promote(TorchDispatchMode):
    """Every floating tensor and dtype argument of every ATen call becomes float64."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name
        if name == "aten::_to_copy" and (kwargs or {}).get("dtype") in _NARROW:
            kwargs = {**(kwargs or {}), "dtype": torch.float64}
        return func(*tree_map(_widen, args), **tree_map(_widen, kwargs or {}))


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
        return value.to(torch.float64)
    if isinstance(value, torch.dtype) and value in _NARROW:
        return torch.float64
    return value


class Oracle:
    """Computes the truth for slot values at one shape."""

    def __init__(self, reference: Reference, shape: Shape, signature: Signature) -> None:
        self._signature = signature
        self._model = reference.build(shape, seed=42)
        self._slots = [
            torch.empty_strided(
                slot.shape,
                slot.strides,
                dtype=torch.float64 if _floating(slot.dtype) else getattr(torch, slot.dtype),
            )
            for slot in signature.slots
        ]
        for module in self._model.modules():
            _widen_module(module)
        wide = Signature(
            tuple(_wide(slot) for slot in signature.slots), signature.outputs, False, ()
        )
        self._call = bind(self._model, reference, shape, signature=wide, tensors=self._slots)

    def __call__(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs in the order of `signature.outputs`: float64, or the integer dtype they have."""
        for slot, value in zip(self._slots, values, strict=True):
            slot.copy_(value)
        return self._run()

    def sensitivity(
        self, values: list[torch.Tensor], truth: list[torch.Tensor], *, seed: int = 0
    ) -> list[torch.Tensor]:
        """S per output element: how far the output moves when the inputs move by their own size.

        The largest of |J x|, |J |x|| and three times the RMS of J(r*x) over random signs r, over
        all floating slots, by forward differences. For a sum of positive terms it is sum|J||x|, the
        S of Higham's (3.12); for mixed signs the RMS underestimates it by at most sqrt(n), which
        the budget's multiple covers for random rounding. For integer outputs zeros.

        Args:
            values: one tensor per slot.
            truth: what the oracle gave for them.
            seed: of the random signs.
        """
        generator = torch.Generator().manual_seed(seed)
        wide = [value.double() if value.is_floating_point() else value for value in values]

        def signs(value: torch.Tensor) -> torch.Tensor:
            return torch.randint(0, 2, value.shape, generator=generator).mul_(2).sub_(1)

        exact = [
            self._difference(wide, truth, lambda value: value),
            self._difference(wide, truth, lambda value: value.abs()),
        ]
        signed = [self._difference(wide, truth, lambda v: v * signs(v)) for _ in range(_SIGNS)]
        result = []
        for at in range(len(truth)):
            rms = torch.stack([s[at] ** 2 for s in signed]).mean(0).sqrt()
            result.append(torch.stack([exact[0][at], exact[1][at], 3 * rms]).amax(0))
        return result

    def _difference(
        self,
        values: list[torch.Tensor],
        truth: list[torch.Tensor],
        tangent: Callable[[torch.Tensor], torch.Tensor],
    ) -> list[torch.Tensor]:
        """|J t| by a forward difference."""
        for slot, value in zip(self._slots, values, strict=True):
            slot.copy_(value + _STEP * tangent(value) if value.is_floating_point() else value)
        return [
            (a - b).abs().div_(_STEP).nan_to_num_(0.0, 0.0, 0.0)
            if a.is_floating_point()
            else torch.zeros(a.shape, dtype=torch.float64)
            for a, b in zip(self._run(), truth, strict=True)
        ]

    def _run(self) -> list[torch.Tensor]:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad(), _Promote():
                return [output.detach() for output in self._call()]
        finally:
            torch.set_default_dtype(default)


def _widen_module(module: torch.nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.data = _widen(parameter.data)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = _widen(buffer)
    for name, value in list(vars(module).items()):
        if isinstance(value, torch.Tensor):
            setattr(module, name, _widen(value))


def _floating(dtype: str) -> bool:
    return getattr(torch, dtype).is_floating_point


def _wide(slot: Any) -> Any:
    from dataclasses import replace

    return replace(slot, dtype="float64") if _floating(slot.dtype) else slot
