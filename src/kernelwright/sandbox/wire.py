"""The fixed binary layout that judge and worker speak. Nothing a worker sends is parsed beyond it.

Little-endian, no padding. The same structures are declared in `runner.c`.

    setup   judge -> worker   header, one slot per input, one per output
    born    worker -> judge   native only: the process it goes on in; 0 when it is locked up
    wake    judge -> worker   sequence number and the outputs that may be freed
    reply   worker -> judge   status and, per output, where it lies in the worker's memory
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAX_DIMS = 8
MAX_RELEASE = 8
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
ITEMSIZE = dict(zip(DTYPES, (4, 8, 2, 2, 8, 4, 2, 1, 1, 1), strict=True))

SETUP_MAGIC, WAKE_MAGIC, REPLY_MAGIC = 0x4B575355, 0x4B57474F, 0x4B575245
BORN_MAGIC = 0x4B57424F
READY_SEQ = 0xFFFFFFFF
BPF_STEP_BYTES = 8

_SETUP = struct.Struct("<IIIIQ")
_TENSOR = struct.Struct(f"<QQii{MAX_DIMS}q{MAX_DIMS}q")
_BORN = struct.Struct("<II")
_WAKE = struct.Struct(f"<III{MAX_RELEASE}I")
_REPLY = struct.Struct("<IIII")
WAKE_BYTES, BORN_BYTES = _WAKE.size, _BORN.size

ADDRESS, SEQ, SEQ_OFFSET = struct.Struct("<Q"), struct.Struct("<I"), 4
"""For filling in a reply in place; see `address_offset`."""


class WireError(Exception):
    """The bytes do not follow the layout; the text names the first thing that is wrong."""


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """One tensor: where it lies and how it is laid out.

    `address` is an offset into the arena for a slot, a virtual address for an output in a reply,
    and unused for an output in a setup. `nbytes` is the extent of the storage it touches.
    """

    address: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def pack(self) -> bytes:
        """The tensor as bytes; unused dimensions are zero."""
        pad = (0,) * (MAX_DIMS - len(self.shape))
        return _TENSOR.pack(
            self.address,
            self.nbytes,
            DTYPES.index(self.dtype),
            len(self.shape),
            *self.shape,
            *pad,
            *self.strides,
            *pad,
        )

    @classmethod
    def unpack(cls, data: bytes) -> TensorLayout:
        """Reads one tensor; raises WireError on a dtype, rank, size or stride out of range."""
        address, nbytes, dtype, ndim, *rest = _TENSOR.unpack(data)
        if not 0 <= dtype < len(DTYPES):
            raise WireError(f"dtype code {dtype} is unknown")
        if not 0 <= ndim <= MAX_DIMS:
            raise WireError(f"rank {ndim} is out of range")
        shape = tuple(rest[:ndim])
        strides = tuple(rest[MAX_DIMS : MAX_DIMS + ndim])
        if any(size < 0 for size in shape) or any(stride < 0 for stride in strides):
            raise WireError("a size or stride is negative")
        return cls(address, nbytes, DTYPES[dtype], shape, strides)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker says after a call."""

    seq: int
    status: int
    outputs: tuple[TensorLayout, ...]


def storage_bytes(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Bytes from the first to the last element, which is what a strided tensor touches."""
    if any(size == 0 for size in shape):
        return 0
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return (last + 1) * ITEMSIZE[dtype]


def pack_setup(
    slots: tuple[TensorLayout, ...],
    outputs: tuple[TensorLayout, ...],
    arena_bytes: int,
    *,
    seccomp: bytes = b"",
) -> bytes:
    """The first message to a worker; a native one also gets its filter of system calls."""
    steps = len(seccomp) // BPF_STEP_BYTES
    head = _SETUP.pack(SETUP_MAGIC, len(slots), len(outputs), steps, arena_bytes)
    return head + b"".join(tensor.pack() for tensor in (*slots, *outputs)) + seccomp


def unpack_setup(
    data: bytes,
) -> tuple[tuple[TensorLayout, ...], tuple[TensorLayout, ...], int]:
    """Slots, outputs and arena size; the inverse of `pack_setup`."""
    magic, n_slots, n_outputs, _, arena_bytes = _SETUP.unpack_from(data)
    if magic != SETUP_MAGIC or len(data) != _SETUP.size + (n_slots + n_outputs) * _TENSOR.size:
        raise WireError("the setup message is malformed")
    tensors = [
        TensorLayout.unpack(data[at : at + _TENSOR.size])
        for at in range(_SETUP.size, len(data), _TENSOR.size)
    ]
    return tuple(tensors[:n_slots]), tuple(tensors[n_slots:]), arena_bytes


def pack_born(word: int) -> bytes:
    """The word of `unpack_born`, from a Python worker."""
    return _BORN.pack(BORN_MAGIC, word)


def unpack_born(data: bytes) -> int:
    """What a native runner says before it loads anything: the process it goes on in, then 0."""
    magic, word = _BORN.unpack(data)
    if magic != BORN_MAGIC:
        raise WireError("the worker did not begin with its magic number")
    return word


def pack_wake(seq: int, release: tuple[int, ...] = ()) -> bytes:
    """Starts call `seq`; outputs of the calls in `release` may be freed first."""
    pad = (0,) * (MAX_RELEASE - len(release))
    return _WAKE.pack(WAKE_MAGIC, seq, len(release), *release, *pad)


def unpack_wake(data: bytes) -> tuple[int, tuple[int, ...]]:
    """Sequence number and released calls."""
    fields = _WAKE.unpack(data)
    if fields[0] != WAKE_MAGIC or fields[2] > MAX_RELEASE:
        raise WireError("the wake message is malformed")
    return fields[1], fields[3 : 3 + fields[2]]


def reply_bytes(n_outputs: int) -> int:
    """Length of a reply that carries `n_outputs` tensors."""
    return _REPLY.size + n_outputs * _TENSOR.size


def address_offset(output: int) -> int:
    """Where the address of an output stands in a reply."""
    return _REPLY.size + output * _TENSOR.size


def pack_reply(reply: Reply) -> bytes:
    """The reply as bytes."""
    head = _REPLY.pack(REPLY_MAGIC, reply.seq, reply.status, len(reply.outputs))
    return head + b"".join(tensor.pack() for tensor in reply.outputs)


def unpack_reply(data: bytes) -> Reply:
    """Reads a reply of any hostile content; raises WireError and nothing else."""
    if len(data) < _REPLY.size:
        raise WireError(f"a reply of {len(data)} bytes is too short")
    magic, seq, status, count = _REPLY.unpack_from(data)
    if magic != REPLY_MAGIC:
        raise WireError("the reply does not begin with its magic number")
    if len(data) != reply_bytes(count):
        raise WireError(f"a reply of {len(data)} bytes cannot carry {count} outputs")
    outputs = tuple(
        TensorLayout.unpack(data[at : at + _TENSOR.size])
        for at in range(_REPLY.size, len(data), _TENSOR.size)
    )
    return Reply(seq, status, outputs)
