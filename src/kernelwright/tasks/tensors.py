"""The tensors a module holds and the tensors a forward returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves


def module_tensors(model: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Kind (`parameter`, `buffer`, `attribute`), qualified name and tensor, in slot order.

    A tensor with several names, such as a tied weight, comes once, under its first name.
    """
    seen: set[int] = set()
    for name, parameter in model.named_parameters():
        seen.add(id(parameter))
        yield "parameter", name, parameter
    for name, buffer in model.named_buffers():
        seen.add(id(buffer))
        yield "buffer", name, buffer
    for prefix, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                yield "attribute", f"{prefix}.{key}" if prefix else key, value


def owner_of(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The submodule that holds a tensor, and the attribute's name there."""
    prefix, _, key = name.rpartition(".")
    return model.get_submodule(prefix), key


def running_statistics(model: nn.Module) -> dict[str, bool]:
    """Names of the norms' running means and variances, and whether forward updates them."""
    return {
        f"{prefix}.{key}" if prefix else key: module.training
        for prefix, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._NormBase)
        for key in ("running_mean", "running_var")
        if getattr(module, key) is not None
    }


def flatten_outputs(result: Any) -> list[torch.Tensor] | None:
    """The tensors of a forward's result in order; None where it holds anything else."""
    leaves = [leaf for leaf in tree_leaves(result) if leaf is not None]
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    return leaves
