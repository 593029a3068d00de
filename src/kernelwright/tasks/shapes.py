"""Shapes to judge at, inside a Task's domain and about as dear as the one it is timed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Shape = Mapping[str, int]
Domain = Mapping[str, tuple[int, int]]

_PRIMES = (3, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191)
_COST_RATIO = 1.5


def sample_shape(
    domain: Domain, default: Shape, rng: np.random.Generator, *, cost: Callable[[Shape], float]
) -> dict[str, int]:
    """Odd and prime sizes, powers of two and their neighbours, the bounds, and what lies between.

    Args:
        domain: closed range of each size.
        default: the timed shape; what is drawn costs at most one and a half times as much.
        rng: draws the sizes.
        cost: any measure that grows with the sizes, such as elements touched.
    """
    volume = _volume(default)
    sizes = dict(default)
    names = [str(name) for name in rng.permutation(list(domain))]
    for name in names:
        low, high = domain[name]
        others = _volume({key: size for key, size in sizes.items() if key != name})
        ceiling = max(low, min(high, volume // max(others, 1)))
        if name == names[-1] and rng.integers(3) > 0:  # else most shapes would be tiny
            sizes[name] = max(low, ceiling - int(rng.integers(0, 4)))
        else:
            sizes[name] = _odd_size(rng, low, ceiling)
    allowed = _COST_RATIO * cost(default)
    while cost(sizes) > allowed:
        name = max(sizes, key=lambda key: sizes[key] / max(domain[key][0], 1))
        if sizes[name] == domain[name][0]:
            break  # every size is at its lower bound
        sizes[name] = max(domain[name][0], sizes[name] * 2 // 3)
    return sizes


def boundary_shapes(domain: Domain, default: Shape) -> list[dict[str, int]]:
    """The default with one size at a time at its lower bound, and all of them there."""
    lows = {name: low for name, (low, _) in domain.items()}
    each = [{**default, name: low} for name, low in lows.items()]
    return [*each, lows] if lows else []


def edge_shapes(domain: Domain, default: Shape) -> list[dict[str, int]]:
    """Every size one above a power of two, and every size one below.

    Whatever width a kernel works in, one shape leaves it a remainder of one element and the other
    a remainder of all but one. The sizes are about a quarter of the default's.
    """

    def near(name: str, offset: int) -> int:
        low, high = domain[name]
        power = 1 << max((default[name] // 4).bit_length() - 1, 4)
        return min(max(power + offset, low), high)

    return [{name: near(name, offset) for name in domain} for offset in (1, -1)] if domain else []


def long_shapes(
    domain: Domain, default: Shape, rng: np.random.Generator, *, cost: Callable[[Shape], float]
) -> list[dict[str, int]]:
    """One size at a time near its upper bound, or as near as costs half of the timed shape.

    The others are small. An index that is too narrow, or a buffer made for the timed size, shows
    here. A size that cannot be longer than the timed one is left out.
    """
    found, allowed = [], cost(default) / 2
    for name, (low, high) in domain.items():
        few = {n: min(size, max(domain[n][0], 3)) for n, size in default.items()}
        longest = max(low, high - int(rng.integers(0, 4)))
        shape = {**few, name: longest}
        while shape[name] > default[name] and cost(shape) > allowed:
            shape[name] = shape[name] * 2 // 3
        if shape[name] > default[name]:
            found.append(shape)
    return found


def near_shape(domain: Domain, default: Shape, rng: np.random.Generator) -> dict[str, int] | None:
    """Every size up to a tenth smaller than the timed one; None where no size can be.

    What a kernel does there is what it does at the timed shape, unless it knows that one.
    """
    near = {
        name: max(low, default[name] - int(rng.integers(1, max(2, default[name] // 10 + 1))))
        for name, (low, _) in domain.items()
    }
    return near if near != dict(default) else None


def _odd_size(rng: np.random.Generator, low: int, high: int) -> int:
    match int(rng.integers(5)):
        case 0:
            wanted = low + int(rng.integers(0, 4))
        case 1:
            wanted = int(rng.choice(_PRIMES))
        case 2:
            wanted = 2 ** int(rng.integers(0, 14)) + int(rng.choice([-1, 0, 1]))
        case 3:
            wanted = high
        case _:
            wanted = int(rng.integers(low, high + 1))
    return min(max(wanted, low), high)


def _volume(sizes: Shape) -> int:
    return int(np.prod(list(sizes.values()), dtype=np.int64))
