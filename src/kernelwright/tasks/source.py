"""Random numbers from a counter under a secret key, as tensors on the device that needs them.

Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch


class Source(Protocol):
    """One stream of random numbers; each call goes on where the last one ended."""

    def normal(self, shape: tuple[int, ...], std: float) -> torch.Tensor:
        """float32, mean 0."""
        ...

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """float32 in [0, 1)."""
        ...

    def whole(self, shape: tuple[int, ...], largest: int) -> torch.Tensor:
        """Whole numbers from -largest to largest, as float32."""
        ...

    def places(self, below: int, count: int) -> torch.Tensor:
        """`count` indices below `below`, int64."""
        ...

    def between(self, low: float, high: float) -> float:
        """One number."""
        ...

    def seed(self) -> int:
        """For torch's own generator, below 2**63."""
        ...


class HostSource:
    """In host memory, from numpy's Philox4x64: 128-bit key, 256-bit counter."""

    def __init__(self, key: int, stream: int, counter: int) -> None:
        """Stream and counter take the high words of the generator's counter."""
        self._rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, counter, stream]))

    def normal(self, shape: tuple[int, ...], std: float) -> torch.Tensor:
        """See `Source`."""
        values = np.asarray(self._rng.standard_normal(shape, dtype=np.float32))
        return torch.from_numpy(np.multiply(values, np.float32(std), out=values))

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """See `Source`."""
        return torch.from_numpy(np.asarray(self._rng.random(shape, dtype=np.float32)))

    def whole(self, shape: tuple[int, ...], largest: int) -> torch.Tensor:
        """See `Source`."""
        values = self._rng.integers(-largest, largest, shape, dtype=np.int8, endpoint=True)
        return torch.from_numpy(np.asarray(values).astype(np.float32))

    def places(self, below: int, count: int) -> torch.Tensor:
        """See `Source`."""
        return torch.from_numpy(self._rng.integers(0, below, count))

    def between(self, low: float, high: float) -> float:
        """See `Source`."""
        return float(self._rng.uniform(low, high))

    def seed(self) -> int:
        """See `Source`."""
        return int(self._rng.integers(2**63))


class DeviceSource:
    """In device memory, from torch's generator there, which is a Philox4x32 with a 64-bit seed.

    The seed is a number of the host's stream, so it takes the whole key to foresee it.
    """

    def __init__(self, key: int, stream: int, counter: int, *, device: torch.device) -> None:
        self._host = HostSource(key, stream, counter)
        self._device = device
        self._rng = torch.Generator(device).manual_seed(self._host.seed())

    def normal(self, shape: tuple[int, ...], std: float) -> torch.Tensor:
        """See `Source`."""
        return torch.randn(shape, generator=self._rng, device=self._device).mul_(std)

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """See `Source`."""
        return torch.rand(shape, generator=self._rng, device=self._device)

    def whole(self, shape: tuple[int, ...], largest: int) -> torch.Tensor:
        """See `Source`."""
        values = torch.empty(shape, device=self._device)
        return values.random_(-largest, largest + 1, generator=self._rng)

    def places(self, below: int, count: int) -> torch.Tensor:
        """See `Source`."""
        return torch.randint(below, (count,), generator=self._rng, device=self._device)

    def between(self, low: float, high: float) -> float:
        """See `Source`."""
        return self._host.between(low, high)

    def seed(self) -> int:
        """See `Source`."""
        return self._host.seed()
