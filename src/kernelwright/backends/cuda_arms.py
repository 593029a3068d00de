"""What a Python worker on a CUDA device serves for Candidates of native code.

Outputs come from torch's caching allocator, as eager's do, so that no arm pays for an allocation
that another does not. This module runs inside workers: no pydantic.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.tasks.slots import OutputSlot, Signature

_MAX_DIMS = 8
_DTYPES = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int64: 4,
    torch.int32: 5,
    torch.int16: 6,
    torch.int8: 7,
    torch.uint8: 8,
    torch.bool: 9,
}
"""enum kw_dtype of kernelwright.h."""


class _Tensor(ctypes.Structure):
    """kw_tensor of kernelwright.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * _MAX_DIMS),
        ("strides", ctypes.c_int64 * _MAX_DIMS),
    )


def shared_object(config: dict[str, Any], tensors: list[Any]) -> Callable[[], list[Any]]:
    """A call of `config["symbol"]` in the library at `config["library"]`, by ctypes.

    Raises:
        OSError: the library cannot be loaded.
        AttributeError: it has no such symbol.
        RuntimeError: (the call) it reports an error of CUDA.
    """
    specs = Signature.from_json(config["signature"]).outputs
    function = getattr(ctypes.CDLL(config["library"]), config["symbol"])
    function.restype = ctypes.c_int
    device = tensors[0].device if tensors else torch.device("cuda")
    given = (_Tensor * len(tensors))(*(_described(tensor) for tensor in tensors))
    made = (_Tensor * len(specs))(*(_described(_empty(spec, device)) for spec in specs))
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    n_given, n_made = ctypes.c_int(len(tensors)), ctypes.c_int(len(specs))

    def call() -> list[Any]:
        outputs = [_empty(spec, device) for spec in specs]
        for structure, output in zip(made, outputs, strict=True):
            structure.data = output.data_ptr()
        error = function(given, n_given, made, n_made, stream)
        if error != 0:
            raise RuntimeError(f"the kernel reports CUDA error {error}")
        return outputs

    return call


def _empty(spec: OutputSlot, device: torch.device) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    return torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=device)


def _described(tensor: torch.Tensor) -> _Tensor:
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    return _Tensor(tensor.data_ptr(), _DTYPES[tensor.dtype], tensor.ndim, sizes, strides)
