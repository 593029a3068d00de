"""Fresh values for every slot, by input family, from a counter-based generator under a secret key.

A draw is new numbers, never a shifted, scaled or permuted copy of an earlier one: such copies are
what memoising cheats recognise. Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature
from kernelwright.tasks.tensors import module_tensors

Generator = np.random.Generator
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40)
Family = Callable[[Generator, tuple[int, ...], "Spread"], np.ndarray]


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of the values a slot nominally has."""

    mean: float
    std: float
    shift: float = 0.0
    """Its size; one per draw, common to all inputs, so that their differences stay ordinary."""


def _normal(rng: Generator, shape: tuple[int, ...], std: float) -> np.ndarray:
    values = rng.standard_normal(shape, dtype=np.float32)
    return np.multiply(values, np.float32(std), out=np.asarray(values))


def _zero_mean(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape, spread.std)


def _scaled_up(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape, 30 * spread.std)


def _scaled_down(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape, 1e-3 * spread.std)


def _shifted_up(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Far from zero: E[x^2] - E[x]^2 cancels here, Welford's sums do not."""
    values = _normal(rng, shape, spread.std)
    return np.add(values, np.float32(spread.shift), out=values)


def _shifted_down(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Every number negative: a maximum that begins with zero stays there, an exponential ends."""
    values = _normal(rng, shape, spread.std)
    return np.subtract(values, np.float32(spread.shift), out=values)


def _impulse(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Mostly small, a few large at random places: what a subsample misses."""
    values = _normal(rng, shape, 0.01 * spread.std)
    flat = values.reshape(-1)
    count = max(1, flat.size // 509)
    if flat.size:
        places = rng.integers(0, flat.size, count)
        flat[places] = _normal(rng, (count,), 8 * spread.std)
    return values


def _heavy_tail(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Normal over the square root of a uniform: the second moment of its tail diverges."""
    tail = np.asarray(rng.random(shape, dtype=np.float32))
    np.maximum(tail, np.float32(1e-4), out=tail)
    np.sqrt(tail, out=tail)
    return np.divide(_normal(rng, shape, spread.std), tail, out=tail)


def _cancellation(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Large neighbours of opposite sign along the last axis, with a small remainder."""
    values = _normal(rng, shape, spread.std)
    if shape and shape[-1] > 1:
        pairs = shape[-1] // 2
        large = _normal(rng, (*shape[:-1], pairs), 30 * spread.std)
        values[..., 0 : 2 * pairs : 2] += large
        values[..., 1 : 2 * pairs : 2] -= large
    return values


def _ties(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Five distinct values: every row has exact ties."""
    values = _integers(rng, shape, 2)
    return np.multiply(values, np.float32(0.5), out=values)


def _small_integers(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Products and short sums are exact in any order."""
    return _integers(rng, shape, 3)


def _integers(rng: Generator, shape: tuple[int, ...], largest: int) -> np.ndarray:
    values = rng.integers(-largest, largest, shape, dtype=np.int8, endpoint=True)
    return np.asarray(values).astype(np.float32)


def _special_values(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Normal numbers, and in a few places NaN, infinities, zeros of both signs and subnormals."""
    values = _normal(rng, shape, spread.std)
    flat = values.reshape(-1)
    if flat.size:
        count = max(1, flat.size // 509)
        places = rng.integers(0, flat.size, count)
        flat[places] = rng.choice(np.asarray(_SPECIAL, dtype=np.float32), count)
    return values


def _flags(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """True with one probability per draw: any mask is an input, whatever the Task's own is like.

    Integers have no such freedom, since an index or an offset is bounded by other inputs.
    """
    return np.asarray(rng.random(shape, dtype=np.float32) < rng.uniform(0.2, 0.9))


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
        self._key = key
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
        rng = self._generator(_WEIGHTS_STREAM, weights)
        return inputs + [
            own if slot.role == "constant" else _redraw(rng, slot.name, own, family)
            for slot, own in zip(slots, self._own, strict=True)
        ]

    def _inputs(self, family: str, counter: int) -> list[torch.Tensor]:
        # Each family has a stream of its own, or one would be a scaled copy of another.
        rng = self._generator(_STREAMS[family], counter)
        seed = int(rng.integers(2**63))
        widest = max((spread.std for spread in self._spreads), default=0.0)
        shift = widest * float(rng.uniform(100, 200))
        values_of = _special_values if family == SPECIAL_VALUES else FAMILIES[family]
        nominal = None
        drawn = []
        for at, slot in enumerate(s for s in self._signature.slots if s.role == "input"):
            dtype = getattr(torch, slot.dtype)
            if values_of is not None and dtype is torch.bool:
                drawn.append(_laid_out(torch.from_numpy(_flags(rng, slot.shape)), slot.strides))
            elif values_of is None or not dtype.is_floating_point:
                if nominal is None:
                    given = self._reference.make_inputs(self._shape, seed=seed)
                    nominal = [v for v in given if isinstance(v, torch.Tensor)]
                drawn.append(nominal[at].detach())
            else:
                values = values_of(rng, slot.shape, replace(self._spreads[at], shift=shift))
                drawn.append(_laid_out(torch.from_numpy(values).to(dtype), slot.strides))
        return drawn

    def _generator(self, stream: int, counter: int) -> Generator:
        # Philox4x64: 128-bit key, 256-bit counter; stream and counter take its high words.
        return Generator(np.random.Philox(key=self._key, counter=[0, 0, counter, stream]))


def _redraw(rng: Generator, name: str, own: torch.Tensor, family: str) -> torch.Tensor:
    """A parameter with the mean and spread of its initial value; a constant one gets a spread."""
    shape = tuple(own.shape)
    if not own.is_floating_point():
        return own
    if name.endswith("running_var"):
        values = rng.random(shape, dtype=np.float32) + np.float32(0.5)
    elif family == "small_integers":
        values = _integers(rng, shape, 3)
    else:
        spread = _spread(own)
        constant = spread.std <= 1e-6 * abs(spread.mean)
        values = _normal(rng, shape, 0.25 if constant else spread.std)
        values = values + np.float32(spread.mean)
    return _laid_out(torch.from_numpy(np.asarray(values)).to(own.dtype), tuple(own.stride()))


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
    target = torch.empty_strided(tuple(values.shape), strides, dtype=values.dtype)
    return target.copy_(values)
