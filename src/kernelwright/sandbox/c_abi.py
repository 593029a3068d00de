"""`kw_tensor` of kernelwright.h, for calls from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from kernelwright.sandbox.wire import DTYPES


class KwTensor(ctypes.Structure):
    """One argument of a native kernel."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    )


def call_kernel(kernel: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Calls a native kernel, loaded by ctypes, on CPU tensors."""
    ins = (KwTensor * len(inputs))(*map(describe_tensor, inputs))
    outs = (KwTensor * len(outputs))(*map(describe_tensor, outputs))
    kernel(ins, len(inputs), outs, len(outputs))


def describe_tensor(tensor: Any) -> KwTensor:
    """The structure of a tensor of at most 8 dimensions; it does not keep the tensor alive."""
    made = KwTensor(tensor.data_ptr(), DTYPES.index(str(tensor.dtype).removeprefix("torch.")))
    made.ndim = tensor.ndim
    made.sizes[: tensor.ndim] = tensor.shape
    made.strides[: tensor.ndim] = tensor.stride()
    return made
