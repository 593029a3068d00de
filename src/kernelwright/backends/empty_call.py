"""What a user's Python pays to call a native kernel: the arm that native times are charged by.

Runs inside workers, as `arms` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.sandbox.c_abi import KwTensor


def from_python(config: dict[str, Any], tensors: list[Any]) -> Callable[[], list[Any]]:
    """Allocates the outputs and calls a kernel that does nothing, as an exported one is called.

    `config["library"]` names that kernel's shared object; without one the outputs are all.
    """
    layouts = [(o["shape"], o["strides"], getattr(torch, o["dtype"])) for o in config["outputs"]]

    def allocate() -> list[Any]:
        return [torch.empty_strided(shape, strides, dtype=d) for shape, strides, d in layouts]

    if config["library"] is None:
        return allocate
    kernel = ctypes.CDLL(config["library"]).kernel
    ins, outs = (KwTensor * len(tensors))(), (KwTensor * len(layouts))()

    def call() -> list[Any]:
        made = allocate()
        inputs = type(ins).from_buffer_copy(ins)
        results = type(outs).from_buffer_copy(outs)
        for structure, tensor in zip((*inputs, *results), (*tensors, *made), strict=True):
            structure.data = tensor.data_ptr()
        kernel(inputs, len(inputs), results, len(results))
        return made

    return call
