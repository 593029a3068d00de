"""Fresh values for every slot, by input family, from a counter-based generator under a secret key.

A draw is new numbers, never a shifted, scaled or permuted copy of an earlier one: such copies are
what memoising cheats recognise. Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kernelwright.tasks.reference import Reference, Shape
from kernelwright.tasks.slots import Signature, module_tensors

Generator = np.random.Generator
Family = Callable[[Generator, tuple[int, ...], "Spread"], np.ndarray]


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of the values a slot nominally has."""

    mean: float
    std: float


def _normal(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _zero_mean(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape) * np.float32(spread.std)


def _scaled_up(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape) * np.float32(30 * spread.std)


def _scaled_down(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    return _normal(rng, shape) * np.float32(1e-3 * spread.std)


def _shifted(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """One shift common to all elements: E[x^2] - E[x]^2 cancels here, Welford does not."""
    shift = spread.std * rng.choice([-1, 1]) * rng.uniform(10, 100)
    return _zero_mean(rng, shape, spread) + np.float32(shift)


def _impulse(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Mostly small, a few large at random places: what a subsample misses."""
    values = _normal(rng, shape) * np.float32(0.01 * spread.std)
    flat = values.reshape(-1)
    count = max(1, flat.size // 509)
    places = rng.integers(0, max(flat.size, 1), count)
    if flat.size:
        flat[places] = _normal(rng, (count,)) * np.float32(8 * spread.std)
    return values


def _heavy_tail(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Normal over the square root of a uniform: the second moment of its tail diverges."""
    tail = rng.random(shape, dtype=np.float32)
    np.maximum(tail, np.float32(1e-4), out=tail)
    return _zero_mean(rng, shape, spread) / np.sqrt(tail)


def _cancellation(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Large neighbours of opposite sign along the last axis, with a small remainder."""
    values = _zero_mean(rng, shape, spread)
    if shape and shape[-1] > 1:
        pairs = shape[-1] // 2
        large = _normal(rng, (*shape[:-1], pairs)) * np.float32(30 * spread.std)
        values[..., 0 : 2 * pairs : 2] += large
        values[..., 1 : 2 * pairs : 2] -= large
    return values


def _ties(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Five distinct values: every row has exact ties."""
    return rng.integers(-2, 3, shape).astype(np.float32) * np.float32(0.5)


def _small_integers(rng: Generator, shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Products and short sums are exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


FAMILIES: dict[str, Family | None] = {
    "nominal": None,
    "zero_mean": _zero_mean,
    "scaled_up": _scaled_up,
    "scaled_down": _scaled_down,
    "shifted": _shifted,
    "impulse": _impulse,
    "heavy_tail": _heavy_tail,
    "cancellation": _cancellation,
    "ties": _ties,
    "small_integers": _small_integers,
}
"""By name; `nominal` is the Task's own `get_inputs`. Applicable where the fp64 output is finite."""


class Drawer:
    """Draws values for all slots of one Task at one shape."""

    def __init__(
        self, reference: Reference, shape: Shape, signature: Signature, *, key: int
    ) -> None:
        self._reference, self._shape, self._signature = reference, shape, signature
        self._key = key
        model = reference.build(shape, seed=0)
        self._own = [tensor.detach().clone() for _, _, tensor in module_tensors(model)]
        inputs = reference.make_inputs(shape, seed=0)
        self._spreads = [_spread(v) for v in inputs if isinstance(v, torch.Tensor)]

    def draw(self, family: str, *, counter: int, weights: int) -> list[torch.Tensor]:
        """One tensor per slot, with the slot's dtype and strides.

        Args:
            family: a name in FAMILIES.
            counter: numbers the draw; equal counters give equal inputs.
            weights: numbers the redraw of parameters, statistics and state.
        """
        inputs = self._inputs(family, counter)
        slots = self._signature.slots[len(inputs) :]
        rng = self._generator(1, weights)
        return inputs + [
            own if slot.role == "constant" else _redraw(rng, slot.name, own, family)
            for slot, own in zip(slots, self._own, strict=True)
        ]

    def _inputs(self, family: str, counter: int) -> list[torch.Tensor]:
        rng = self._generator(0, counter)
        seed = int(rng.integers(2**63))
        shape_of = FAMILIES[family]
        nominal = None
        drawn = []
        for at, slot in enumerate(s for s in self._signature.slots if s.role == "input"):
            dtype = getattr(torch, slot.dtype)
            if shape_of is None or not dtype.is_floating_point:
                if nominal is None:
                    given = self._reference.make_inputs(self._shape, seed=seed)
                    nominal = [v for v in given if isinstance(v, torch.Tensor)]
                drawn.append(nominal[at])
            else:
                values = torch.from_numpy(shape_of(rng, slot.shape, self._spreads[at]))
                drawn.append(_laid_out(values.to(dtype), slot.strides))
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
        values = _small_integers(rng, shape, Spread(0.0, 1.0))
    else:
        spread = _spread(own)
        std = spread.std if spread.std > 1e-7 * (1 + abs(spread.mean)) else 0.25
        values = _normal(rng, shape) * np.float32(std) + np.float32(spread.mean)
    return _laid_out(torch.from_numpy(np.asarray(values)).to(own.dtype), tuple(own.stride()))


def _spread(tensor: torch.Tensor) -> Spread:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return Spread(0.0, 1.0)
    values = tensor.detach().double()
    std = float(values.std(correction=0)) if tensor.numel() > 1 else 0.0
    return Spread(float(values.mean()), std if std > 0 else 1.0 if tensor.numel() > 1 else 0.0)


def _laid_out(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    if tuple(values.stride()) == strides:
        return values
    target = torch.empty_strided(tuple(values.shape), strides, dtype=values.dtype)
    return target.copy_(values)
