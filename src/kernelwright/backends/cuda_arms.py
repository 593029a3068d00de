"""What a Python worker on a CUDA device serves for Candidates that fill given outputs.

Outputs come from torch's caching allocator, as eager's do, so that no arm pays for an allocation
that another does not. This module runs inside workers: no pydantic.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.backends.arms import load_file
from kernelwright.sandbox.c_abi import KwTensor, describe_tensor
from kernelwright.tasks.slots import OutputSlot, Signature


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
    given = (KwTensor * len(tensors))(*(describe_tensor(tensor) for tensor in tensors))
    made = (KwTensor * len(specs))(*(describe_tensor(_empty(spec, device)) for spec in specs))
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


def launcher(config: dict[str, Any], tensors: list[Any]) -> Callable[[], list[Any]]:
    """A call of the function `config["symbol"]` of a Triton Candidate's file, on fresh outputs."""
    function = getattr(load_file(config["path"]), config["symbol"])
    specs = Signature.from_json(config["signature"]).outputs
    device = tensors[0].device if tensors else torch.device("cuda")

    def call() -> list[Any]:
        outputs = [_empty(one, device) for one in specs]
        function(tensors, outputs)
        return outputs

    call()  # compiles
    torch.cuda.synchronize()
    return call


def _empty(spec: OutputSlot, device: torch.device) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    return torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=device)
