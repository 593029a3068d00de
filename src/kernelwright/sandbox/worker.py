"""The Python side of a worker: load one arm, then answer wake messages until the judge is gone.

This module runs in the forked child. It imports neither pydantic nor any room above `tasks`; the
arm is a module-level function named in the request.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kernelwright.sandbox.limits import Limits, limit_memory, lock_down
from kernelwright.sandbox.lockup import Cell, lock_in
from kernelwright.sandbox.place import DevicePlace, HostPlace, Place
from kernelwright.sandbox.wire import (
    ADDRESS,
    READY_SEQ,
    SEQ,
    SEQ_OFFSET,
    WAKE_BYTES,
    Reply,
    TensorLayout,
    address_offset,
    pack_born,
    pack_reply,
    unpack_setup,
    unpack_wake,
)

OK, CALL_FAILED, LOAD_FAILED, OUT_OF_MEMORY = 0, 1, 2, 3


def run_worker(
    asked: dict[str, Any], cell: Cell | None, *, wake_fd: int, reply_fd: int, memory_fds: list[int]
) -> None:
    """Loads the arm the request names and serves calls. Returns when the judge hangs up.

    Args:
        asked: `arm` ("module:function"), `config`, `setup` (hex), `limits`, and on a device its
            `pool`: size and allocator.
        cell: the walls around it; None for the user's own code, which needs none.
        wake_fd: where wake messages come from.
        reply_fd: where replies go.
        memory_fds: the sealed memfd of inputs; on a device the arena and the pool.
    """
    import torch

    limits = Limits(**asked["limits"])
    limit_memory(limits)
    os.environ["OMP_NUM_THREADS"] = str(limits.threads)
    torch.set_num_threads(limits.threads)
    torch.set_flush_denormal(False)
    slots, outputs, arena_bytes = unpack_setup(bytes.fromhex(asked["setup"]))
    place = _place(asked["pool"], arena_bytes, memory_fds)
    module, function = asked["arm"].split(":")
    if cell is not None:
        import_module(module)  # our own code: it need not be readable from inside
        lock_in(cell, place.start)
        _write(reply_fd, pack_born(0))
    else:
        place.start()
    tensors = [_tensor(place.arena, slot) for slot in slots]
    ready = Reply(READY_SEQ, OK, tuple(_at(output, place.base) for output in outputs))
    try:
        load = getattr(import_module(module), function)
        call = load(asked["config"], tensors)
        lock_down(limits)
    except Exception:
        _report_failure()
        _write(reply_fd, pack_reply(Reply(READY_SEQ, LOAD_FAILED, ready.outputs)))
        return
    gc.collect()
    gc.freeze()  # the arm's own objects are not scanned inside a timed call
    _write(reply_fd, pack_reply(ready))
    _serve(place.serve(call), outputs, wake_fd, reply_fd)


def _place(pool: dict[str, Any] | None, arena_bytes: int, fds: list[int]) -> Place:
    if pool is None:
        return HostPlace(fds[0], arena_bytes)
    return DevicePlace(fds[0], arena_bytes, fds[1], pool["nbytes"], allocator=pool["allocator"])


def _serve(
    call: Callable[[], list[Any]],
    specs: tuple[TensorLayout, ...],
    wake_fd: int,
    reply_fd: int,
) -> None:
    """The loop inside the timed window.

    The judge has just written the inputs, so this code runs from cold caches, where each line of
    Python costs microseconds: only addresses are filled into a prepared reply.
    """
    import torch

    torch.set_grad_enabled(False)
    held: dict[int, list[Any]] = {}
    template = bytearray(pack_reply(Reply(0, OK, specs)))
    expected = [(getattr(torch, s.dtype), s.shape, s.strides) for s in specs]
    offsets = [address_offset(at) for at in range(len(specs))]
    read, write, pack_address, plain = os.read, os.write, ADDRESS.pack_into, torch.Tensor
    while message := read(wake_fd, WAKE_BYTES):
        seq, release = unpack_wake(message)
        for earlier in release:
            held.pop(earlier, None)
        try:
            outputs = call()
            SEQ.pack_into(template, SEQ_OFFSET, seq)
            for output, (dtype, shape, strides), at in zip(outputs, expected, offsets, strict=True):
                if (
                    type(output) is not plain
                    or output.dtype is not dtype
                    or output.shape != shape
                    or output.stride() != strides
                ):
                    raise _Unusual(outputs)
                pack_address(template, at, output.data_ptr())
            held[seq] = outputs
            write(reply_fd, template)
        except _Unusual as unusual:
            held[seq] = unusual.outputs
            _write(reply_fd, _describe_outputs(seq, unusual.outputs, specs))
        except Exception as error:
            _report_failure()
            status = OUT_OF_MEMORY if _is_out_of_memory(error) else CALL_FAILED
            _write(reply_fd, pack_reply(Reply(seq, status, specs)))


class _Unusual(Exception):
    """An output is not laid out as the reference's; it is described in full for the judge."""

    def __init__(self, outputs: list[Any]) -> None:
        super().__init__()
        self.outputs = outputs


def _describe_outputs(seq: int, outputs: list[Any], specs: tuple[TensorLayout, ...]) -> bytes:
    try:
        return pack_reply(Reply(seq, OK, tuple(_layout(output) for output in outputs)))
    except Exception:
        _report_failure()
        return pack_reply(Reply(seq, CALL_FAILED, specs))


def _tensor(arena: Any, slot: TensorLayout) -> Any:
    import torch

    dtype = getattr(torch, slot.dtype)
    if slot.nbytes == 0:
        return torch.empty_strided(slot.shape, slot.strides, dtype=dtype, device=arena.device)
    flat = arena[slot.address : slot.address + slot.nbytes].view(dtype)
    return torch.as_strided(flat, slot.shape, slot.strides)


def _layout(output: Any) -> TensorLayout:
    """Where an output lies. Only a plain strided tensor has such a place."""
    import torch

    if type(output) is not torch.Tensor or output.layout != torch.strided:
        raise TypeError(f"an output is a {type(output).__name__}, not a plain torch.Tensor")
    if output.is_neg() or output.is_conj():
        raise TypeError("an output is not plain memory")
    dtype = str(output.dtype).removeprefix("torch.")
    return TensorLayout(
        output.data_ptr(), output.nbytes, dtype, tuple(output.shape), tuple(output.stride())
    )


def _at(output: TensorLayout, address: int) -> TensorLayout:
    return TensorLayout(address, output.nbytes, output.dtype, output.shape, output.strides)


def _is_out_of_memory(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, MemoryError) or "can't allocate" in text or "out of memory" in text


def _report_failure() -> None:
    """Puts the last line of the traceback into the log, which is shown to people only."""
    kind, value, where = sys.exc_info()
    lines = traceback.format_exception_only(kind, value)
    frames = traceback.extract_tb(where)
    place = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    sys.stderr.write(place + " ".join("".join(lines).split()) + "\n")
    sys.stderr.flush()


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
