"""The truth: the reference in float64 on the same, already rounded, inputs and weights.

Real references hard-code `.float()` and `dtype=torch.float32` and keep plain tensor attributes, so
`.double()` alone narrows or raises. The promotion therefore happens at the dispatcher, below every
such line: floating tensors and dtypes become float64 in each ATen call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kernelwright.judge.verify.budget import BUDGETS, UNIT_ROUNDOFF
from kernelwright.judge.verify.discrete import (
    Choice,
    Derived,
    Origin,
    Scale,
    Source,
    Sources,
)
from kernelwright.judge.verify.terms import LongestSum, Watcher, growth, repeats
from kernelwright.tasks.bind import bind
from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature, Slot

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_SIGNS = 2
_STEP = 2.0**-26
"""Relative step of the differences: half the digits of float64, so 2^-26 of S is lost to rounding
and as much to curvature, while kinks (max, relu) at the inputs' own scale are not stepped over."""
_NEARBY = 8
"""Moved inputs on which a discrete output of unknown origin is asked for again."""


class _Promote(TorchDispatchMode):
    """Every floating tensor and dtype argument of every ATen call becomes float64."""

    def __init__(self, narrow: set[str], watcher: Watcher | None = None) -> None:
        super().__init__()
        self._narrow, self._watcher = narrow, watcher

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        wide_args, wide_kwargs = tree_map(_widen, args), tree_map(_widen, kwargs or {})
        try:
            result = func(*wide_args, **wide_kwargs)
        except RuntimeError as error:
            if not _lacks_float64(error):
                raise
            self._narrow.add(func._schema.name)
            narrowed = tree_map(_to_float32, (args, kwargs or {}))
            result = tree_map(_widen, func(*narrowed[0], **narrowed[1]))
        if self._watcher is not None:
            names = [argument.name for argument in func._schema.arguments]
            given = dict(zip(names, wide_args, strict=False)) | wide_kwargs
            self._watcher.see(func, given, result)
        return result


def _lacks_float64(error: RuntimeError) -> bool:
    """PyTorch's two ways to say so: its dispatch macros name the dtype."""
    text = str(error)
    return "not implemented for 'Double'" in text or "expected scalar type Float" in text


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
        return value.to(torch.float64)
    if isinstance(value, torch.dtype) and value in _NARROW:
        return torch.float64
    return value


def _to_float32(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
        return value.to(torch.float32)
    return value


class Oracle:
    """Computes the truth for slot values at one shape."""

    def __init__(self, reference: Reference, shape: Shape, signature: Signature) -> None:
        """Builds the module in float64.

        Args:
            reference: what is computed.
            shape: named sizes.
            signature: of the reference at this shape.
        """
        self._signature = signature
        self._device = reference.device
        self._narrow: set[str] = set()
        self._terms: int | None = None
        self._model = reference.build(shape, seed=42)
        self._slots = [
            torch.empty_strided(
                slot.shape,
                slot.strides,
                dtype=torch.float64 if _floating(slot.dtype) else getattr(torch, slot.dtype),
                device=reference.device,
            )
            for slot in signature.slots
        ]
        for module in self._model.modules():
            _widen_module(module)
        wide = Signature(
            tuple(_wide(slot) for slot in signature.slots), signature.outputs, False, ()
        )
        self._call = bind(self._model, reference, shape, signature=wide, tensors=self._slots)

    @property
    def notes(self) -> tuple[str, ...]:
        """Operators without a float64 kernel: what they computed is true to float32 only."""
        return tuple(f"the oracle ran {name} in float32" for name in sorted(self._narrow))

    def __call__(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs in the order of `signature.outputs`: float64, or the integer dtype they have."""
        self._set(values)
        mine = {slot.untyped_storage().data_ptr() for slot in self._slots}
        return [  # what the reference returns as a view of a slot must outlive the slot's values
            output.clone() if output.untyped_storage().data_ptr() in mine else output
            for output in self._run()
        ]

    def sensitivity(
        self,
        values: list[torch.Tensor],
        truth: list[torch.Tensor],
        *,
        coherent: bool = False,
        seed: int = 0,
    ) -> list[Scale]:
        """Per output, what its errors are held against when they exceed the reference's own.

        For a floating output S per element: how far it moves when the inputs move by their own
        size. It is the largest of |J x|, |J |x|| and three times the RMS of J(r*x) over random
        signs r, over all floating slots, by forward differences. For a sum of positive terms it is
        sum|J||x|, the S of Higham's (3.12); for mixed signs the RMS underestimates it by at most
        sqrt(n), which the budget's multiple covers for random rounding. For a discrete output the
        operator that chose it.

        The `growth` of the longest sum multiplies S; and where the output hardly moves with the
        inputs, as a softmax near one, it still inherits what such a sum inside it lost, relative to
        its own size.

        Args:
            values: one tensor per slot.
            truth: what the oracle gave for them.
            coherent: terms of one sum may be nearly equal; see `growth`.
            seed: of the random signs.
        """
        factor = growth(self._longest_sum(), coherent=coherent or repeats(values))
        floating = [at for at, t in enumerate(truth) if t.is_floating_point()]
        scales: list[Scale] = [Derived(list)] * len(truth)
        if floating:
            base = [truth[at] for at in floating]
            sizes = self._sizes(values, base, lambda: self._pick_outputs(floating), seed=seed)
            for at, size in zip(floating, sizes, strict=True):
                scales[at] = size.mul_(factor).add_(truth[at].abs(), alpha=factor - 1.0)
        if len(floating) < len(truth):
            self._set(values)
            sources = Sources()
            for at, output in enumerate(self._run(sources)):
                if at not in floating:
                    source = sources.of(output)
                    scales[at] = self._origin(values, at, source, factor=factor, seed=seed)
        return scales

    def _origin(
        self,
        values: list[torch.Tensor],
        at: int,
        source: Source | None,
        *,
        factor: float,
        seed: int,
    ) -> Origin:
        dtype = self._task_dtype()
        if source is None:
            return Derived(lambda: self._nearby(values, at, dtype, seed=seed))

        base = [operand.clone() for operand in source.values]

        def scale() -> tuple[torch.Tensor, ...]:
            sizes = self._sizes(values, base, lambda: self._operands(at), seed=seed)
            return tuple(size.mul_(factor) for size in sizes)

        return Choice(source.kind, tuple(base), source.dim, source.shape, dtype, scale)

    def _operands(self, at: int) -> list[torch.Tensor]:
        """What the operator behind a discrete output compared, on the values now set."""
        sources = Sources()
        source = sources.of(self._run(sources)[at])
        assert source is not None
        return list(source.values)

    def _nearby(
        self, values: list[torch.Tensor], at: int, dtype: torch.dtype, *, seed: int
    ) -> list[torch.Tensor]:
        """One output on inputs that moved by the condition-aware budget's multiple of u."""
        generator = torch.Generator(self._device).manual_seed(seed)
        step = BUDGETS.condition_rms * UNIT_ROUNDOFF[dtype]
        answers = []
        for _ in range(_NEARBY):
            self._set(values, lambda value: step * value * _signs(value, generator))
            answers.append(self._run()[at].clone())
        return answers

    def _sizes(
        self,
        values: list[torch.Tensor],
        base: list[torch.Tensor],
        probe: Callable[[], list[torch.Tensor]],
        *,
        seed: int,
    ) -> list[torch.Tensor]:
        """S of whatever `probe` reads off a run, `base` being that at the values themselves."""
        generator = torch.Generator(self._device).manual_seed(seed)

        def moved(tangent: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
            self._set(values, lambda value: _STEP * tangent(value))
            pairs = zip(probe(), base, strict=True)
            return [(a - b).abs_().div_(_STEP).nan_to_num_(0.0, 0.0, 0.0) for a, b in pairs]

        largest = moved(lambda value: value)
        for size, other in zip(largest, moved(torch.abs), strict=True):
            torch.maximum(size, other, out=size)
        squares = [torch.zeros_like(size) for size in largest]
        for _ in range(_SIGNS):
            for total, one in zip(squares, moved(lambda v: v * _signs(v, generator)), strict=True):
                total.addcmul_(one, one, value=9 / _SIGNS)
        return [
            torch.maximum(size, total.sqrt_(), out=size)
            for size, total in zip(largest, squares, strict=True)
        ]

    def _longest_sum(self) -> int:
        """Of a run on whatever values are set: it depends on sizes alone."""
        if self._terms is None:
            watcher = LongestSum()
            self._run(watcher)
            self._terms = watcher.terms
        return self._terms

    def _set(
        self,
        values: list[torch.Tensor],
        change: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        for slot, value in zip(self._slots, values, strict=True):
            slot.copy_(value)
            if change is not None and slot.is_floating_point():
                slot.add_(change(slot))

    def _pick_outputs(self, places: list[int]) -> list[torch.Tensor]:
        outputs = self._run()
        return [outputs[at] for at in places]

    def _task_dtype(self) -> torch.dtype:
        """The narrowest floating dtype among the slots."""
        dtypes = [getattr(torch, slot.dtype) for slot in self._signature.slots]
        floats = [dtype for dtype in dtypes if dtype in UNIT_ROUNDOFF]
        return max(floats, key=lambda dtype: UNIT_ROUNDOFF[dtype], default=torch.float32)

    def _run(self, watcher: Watcher | None = None) -> list[torch.Tensor]:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad(), _Promote(self._narrow, watcher):
                return [output.detach() for output in self._call()]
        finally:
            torch.set_default_dtype(default)


def _signs(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    where = generator.device
    bits = torch.randint(0, 2, value.shape, generator=generator, dtype=torch.int8, device=where)
    return bits.mul_(2).sub_(1)


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


def _wide(slot: Slot) -> Slot:
    return replace(slot, dtype="float64") if _floating(slot.dtype) else slot
