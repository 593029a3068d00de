"""A native kernel as its user calls it, from Python; an empty one is what native times are charged.

Runs inside workers, as `arms` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.sandbox.c_abi import KwTensor, describe_tensor


def from_python(config: dict[str, Any], tensors: list[Any]) -> Callable[[], list[Any]]:
    """Allocates the outputs and calls a kernel, as an exported one is called.

    `config["library"]` names the kernel's shared object; without one the outputs are all.
    """
    layouts = [(o["shape"], o["strides"], getattr(torch, o["dtype"])) for o in config["outputs"]]

    where = tensors[0].device if tensors else torch.device("cpu")

    def allocate() -> list[Any]:
        return [
            torch.empty_strided(shape, strides, dtype=dtype, device=where)
            for shape, strides, dtype in layouts
        ]

    if config["library"] is None:
        return allocate
    kernel = ctypes.CDLL(config["library"]).kernel
    ins = (KwTensor * len(tensors))(*map(describe_tensor, tensors))
    outs = (KwTensor * len(layouts))(*map(describe_tensor, allocate()))

    def call() -> list[Any]:
        made = allocate()
        inputs = type(ins).from_buffer_copy(ins)
        results = type(outs).from_buffer_copy(outs)
        for structure, tensor in zip((*inputs, *results), (*tensors, *made), strict=True):
            structure.data = tensor.data_ptr()
        kernel(inputs, len(inputs), results, len(results))
        return made

    return call
