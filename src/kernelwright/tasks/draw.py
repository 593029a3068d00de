"""Fresh values for every slot, by input family, from a counter-based generator under a secret key.

A draw is new numbers, never a shifted, scaled or permuted copy of an earlier one: such copies are
what memoising cheats recognise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature
from kernelwright.tasks.source import DeviceSource, HostSource, Source
from kernelwright.tasks.tensors import module_tensors

_SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40)
Family = Callable[[Source, tuple[int, ...], "Spread"], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of the values a slot nominally has."""

    mean: float
    std: float
    shift: float = 0.0
    """Its size; one per draw, common to all inputs, so that their differences stay ordinary."""


def _zero_mean(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    return source.normal(shape, spread.std)


def _scaled_up(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    return source.normal(shape, 30 * spread.std)


def _scaled_down(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    return source.normal(shape, 1e-3 * spread.std)


def _shifted_up(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Far from zero: E[x^2] - E[x]^2 cancels here, Welford's sums do not."""
    return source.normal(shape, spread.std).add_(spread.shift)


def _shifted_down(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Every number negative: a maximum that begins with zero stays there, an exponential ends."""
    return source.normal(shape, spread.std).sub_(spread.shift)


def _impulse(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Mostly small, a few large at random places: what a subsample misses."""
    values = source.normal(shape, 0.01 * spread.std)
    flat = values.view(-1)
    count = max(1, flat.numel() // 509)
    if flat.numel():
        places = source.places(flat.numel(), count)
        flat[places] = source.normal((count,), 8 * spread.std)
    return values


def _heavy_tail(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Normal over the square root of a uniform: the second moment of its tail diverges."""
    tail = source.uniform(shape).clamp_(min=1e-4).sqrt_()
    return source.normal(shape, spread.std).div_(tail)


def _cancellation(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Large neighbours of opposite sign along the last axis, with a small remainder."""
    values = source.normal(shape, spread.std)
    if shape and shape[-1] > 1:
        pairs = shape[-1] // 2
        large = source.normal((*shape[:-1], pairs), 30 * spread.std)
        values[..., 0 : 2 * pairs : 2] += large
        values[..., 1 : 2 * pairs : 2] -= large
    return values


def _ties(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Five distinct values: every row has exact ties."""
    return source.whole(shape, 2).mul_(0.5)


def _small_integers(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Products and short sums are exact in any order."""
    return source.whole(shape, 3)


def _special_values(source: Source, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """Normal numbers, and in a few places NaN, infinities, zeros of both signs and subnormals."""
    values = source.normal(shape, spread.std)
    flat = values.view(-1)
    if flat.numel():
        count = max(1, flat.numel() // 509)
        places = source.places(flat.numel(), count)
        special = torch.tensor(_SPECIAL, dtype=torch.float32, device=flat.device)
        flat[places] = special[source.places(len(_SPECIAL), count)]
    return values


def _flags(source: Source, shape: tuple[int, ...]) -> torch.Tensor:
    """True with one probability per draw: any mask is an input, whatever the Task's own is like.

    Integers have no such freedom, since an index or an offset is bounded by other inputs.
    """
    values = source.uniform(shape)
    return values < source.between(0.2, 0.9)


FAMILIES: dict[str, Family | None] = {
    "nominal": None,
    "zero_mean": _zero_mean,
    "scaled_up": _scaled_up,
    "scaled_down": _scaled_down,
    "shifted_up": _shifted_up,
    "impulse": _impulse,
    "heavy_tail": _heavy_tail,
    "cancellation": _cancellation,
    "ties": _ties,
    "small_integers": _small_integers,
    "shifted_down": _shifted_down,
}
"""By name; `nominal` is the Task's own `get_inputs`. Applicable where the fp64 output is finite."""

SPECIAL_VALUES = "special_values"
"""A further family, drawn only where the Task says that NaN and infinities are in its domain."""

COHERENT = frozenset({"scaled_down", "impulse", "heavy_tail", "ties", "small_integers"})
"""Families in which the terms of a sum may be nearly equal, or as small as its last place: then
their roundings go one way and do not average out."""

_STREAMS = {name: at for at, name in enumerate([*FAMILIES, "parameters", SPECIAL_VALUES])}
_WEIGHTS_STREAM = _STREAMS["parameters"]


class Drawer:
    """Draws values for all slots of one Task at one shape."""

    def __init__(
        self, reference: Reference, shape: Shape, signature: Signature, *, key: int
    ) -> None:
        """Builds the module once, for its constants and the spread of its parameters.

        Args:
            reference: gives nominal inputs and initial parameters.
            shape: named sizes.
            signature: of the reference at this shape.
            key: secret, below 2**128; equal keys give equal numbers.
        """
        self._reference, self._shape, self._signature = reference, shape, signature
        self._key, self._device = key, reference.device
        model = reference.build(shape, seed=0)
        self._own = [tensor.detach().clone() for _, _, tensor in module_tensors(model)]
        inputs = reference.make_inputs(shape, seed=0)
        self._spreads = [_input_spread(v) for v in inputs if isinstance(v, torch.Tensor)]

    def draw(self, family: str, *, counter: int, weights: int) -> list[torch.Tensor]:
        """One tensor per slot, with the slot's dtype and strides.

        Args:
            family: a name in FAMILIES, or SPECIAL_VALUES.
            counter: numbers the draw; equal counters give equal inputs.
            weights: numbers the redraw of parameters, statistics and state.
        """
        inputs = self._inputs(family, counter)
        slots = self._signature.slots[len(inputs) :]
        source = self._source(_WEIGHTS_STREAM, weights)
        return inputs + [
            own if slot.role == "constant" else _redraw(source, slot.name, own, family)
            for slot, own in zip(slots, self._own, strict=True)
        ]

    def _inputs(self, family: str, counter: int) -> list[torch.Tensor]:
        # Each family has a stream of its own, or one would be a scaled copy of another.
        source = self._source(_STREAMS[family], counter)
        seed = source.seed()
        widest = max((spread.std for spread in self._spreads), default=0.0)
        shift = widest * source.between(100, 200)
        values_of = _special_values if family == SPECIAL_VALUES else FAMILIES[family]
        nominal = None
        drawn = []
        for at, slot in enumerate(s for s in self._signature.slots if s.role == "input"):
            dtype = getattr(torch, slot.dtype)
            if values_of is not None and dtype is torch.bool:
                drawn.append(_laid_out(_flags(source, slot.shape), slot.strides))
            elif values_of is None or not dtype.is_floating_point:
                if nominal is None:
                    given = self._reference.make_inputs(self._shape, seed=seed)
                    nominal = [v for v in given if isinstance(v, torch.Tensor)]
                drawn.append(nominal[at].detach())
            else:
                values = values_of(source, slot.shape, replace(self._spreads[at], shift=shift))
                drawn.append(_laid_out(values.to(dtype), slot.strides))
        return drawn

    def _source(self, stream: int, counter: int) -> Source:
        if self._device.type == "cpu":
            return HostSource(self._key, stream, counter)
        return DeviceSource(self._key, stream, counter, device=self._device)


def _redraw(source: Source, name: str, own: torch.Tensor, family: str) -> torch.Tensor:
    """A parameter with the mean and spread of its initial value; a constant one gets a spread."""
    shape = tuple(own.shape)
    if not own.is_floating_point():
        return own
    if name.endswith("running_var"):
        values = source.uniform(shape).add_(0.5)
    elif family == "small_integers":
        values = source.whole(shape, 3)
    else:
        spread = _spread(own)
        constant = spread.std <= 1e-6 * abs(spread.mean)
        values = source.normal(shape, 0.25 if constant else spread.std).add_(spread.mean)
    return _laid_out(values.to(own.dtype), tuple(own.stride()))


def _input_spread(tensor: torch.Tensor) -> Spread:
    spread = _spread(tensor)
    return spread if spread.std > 0 else Spread(spread.mean, 1.0)


def _spread(tensor: torch.Tensor) -> Spread:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return Spread(0.0, 0.0)
    std, mean = torch.std_mean(tensor.detach().float(), correction=0)
    return Spread(float(mean), float(std))


def _laid_out(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    if tuple(values.stride()) == strides:
        return values
    shape, dtype = tuple(values.shape), values.dtype
    return torch.empty_strided(shape, strides, dtype=dtype, device=values.device).copy_(values)
