"""The forbidden acts in a Python worker: the arm that `selftest` has it serve."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from kernelwright.sandbox.c_abi import call_kernel


def try_acts(config: dict[str, Any], tensors: list[Any]) -> Callable[[], list[Any]]:
    """Calls the kernel of `config["library"]` on the inputs, as a submission could by ctypes."""
    import torch

    kernel = ctypes.CDLL(config["library"]).kernel
    shape = tuple(config["shape"])

    def call() -> list[Any]:
        made = torch.empty(shape, dtype=torch.uint8)
        call_kernel(kernel, tensors, [made])
        return [made]

    return call
