"""An arm: one worker on a bench, what it was asked, and what it answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernelwright.sandbox import Call, Failure, TensorLayout, Worker
from kernelwright.sandbox.wire import storage_bytes

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """The arm broke a rule of the call; the judge turns it into a Rejected."""

    stage: str
    reason: str


@dataclass(slots=True, eq=False)
class Draw:
    """One set of slot values, and what is known about them once it has been computed."""

    family: str
    values: list[Any]
    weights: int
    """Which redraw of parameters and statistics the values carry."""
    truth: list[Any] | None = None
    reference: list[Any] | None = None
    staged: list[Any] | None = None
    """The values in page-locked host memory, for a device's copy engine."""
    yardstick: Any = None
    """`verify.Yardstick` of truth and reference."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: its clocks and, where asked for, a copy of the outputs."""

    wall_ns: int
    cpu_ns: int
    late_cpu_ns: int
    freeze_ns: int
    outputs: list[Any] | None


@dataclass(slots=True)
class Held:
    """Outputs the judge still 'uses': where they lie, and bytes of them at secret places."""

    seq: int
    ranges: list[tuple[int, int]]
    places: list[tuple[int, int]]
    data: bytes


class Reader(Protocol):
    """Reads the memory in which a frozen worker's outputs lie."""

    def read_memory(self, address: int, into: Any) -> bool:
        """Copies from `address` into a contiguous uint8 array; False: it does not lie there."""
        ...

    def read_places(self, places: Sequence[tuple[int, int]]) -> bytes | None:
        """The bytes at each (address, length), joined; None: some of them are not mapped."""
        ...


class Arm:
    """One worker on a bench, and the outputs of it that are held."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        *,
        trusted: bool,
        inputs: Span,
        home: Span | None = None,
        memory: Reader | None = None,
        charge_ns: int = 0,
        fenced: bool = False,
    ) -> None:
        self.name = name
        self.worker = worker
        self.trusted = trusted
        """A baseline may hand out a view of its input, as the user's own code would."""
        self.inputs = inputs
        """Where its inputs lie, and so no output may."""
        self.home = home
        """Where its outputs must lie; None: anywhere else."""
        self.memory: Reader = worker if memory is None else memory
        self.charge_ns = charge_ns
        """Added to each of its times: what a call from Python costs that its runner is spared."""
        self.fenced = fenced
        """Its outputs end at a fence, with a canary where alignment leaves room before it."""
        self.latest: Draw | None = None
        """What its last call was on."""
        self.held: list[Held] = []
        self.kept: list[Held] = []

    def close(self) -> int:
        """Ends the worker; returns how many processes it had started."""
        return self.worker.kill()


def describe(failure: Failure) -> str:
    """A worker's failure in one line for people."""
    text = {
        "crashed": "crashed",
        "hung": "did not end",
        "raised": "raised an error",
        "load_failed": "could not be loaded",
        "out_of_memory": "ran out of memory",
        "garbled": "sent a malformed reply",
    }[failure.kind]
    return f"{text}: {failure.detail}" if failure.detail else text


def layout_of(slot: Any) -> TensorLayout:
    """A slot or output of a signature, as the wire has it."""
    nbytes = storage_bytes(slot.dtype, slot.shape, slot.strides)
    return TensorLayout(0, nbytes, slot.dtype, slot.shape, slot.strides)


def sample_of(call: Call, arm: Arm, outputs: list[Any] | None) -> Sample:
    """The clocks of a call: what is computed from the reply until the standstill counts as well."""
    wall_ns = call.wall_ns + call.late_cpu_ns + arm.charge_ns
    return Sample(wall_ns, call.cpu_ns, call.late_cpu_ns, call.freeze_ns, outputs)


def storage_of(value: torch.Tensor) -> torch.Tensor:
    """The bytes a strided tensor touches, first to last element, as uint8 without a copy."""
    dtype = str(value.dtype).removeprefix("torch.")
    nbytes = storage_bytes(dtype, tuple(value.shape), tuple(value.stride()))
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8, device=value.device)
    flat = torch.as_strided(value.detach(), (nbytes // value.element_size(),), (1,))
    return flat.view(torch.uint8)


def tensor_of(data: torch.Tensor, layout: TensorLayout) -> torch.Tensor:
    """The inverse: storage bytes as the tensor they hold."""
    dtype = getattr(torch, layout.dtype)
    if layout.nbytes == 0:
        return torch.empty_strided(layout.shape, layout.strides, dtype=dtype, device=data.device)
    return torch.as_strided(data.view(dtype), layout.shape, layout.strides)
