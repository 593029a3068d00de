"""What is known about values without computing them: ranges, constants, finite numbers."""

from __future__ import annotations

import math

import torch

from kernelwright.propose.search.ir import Arg, Graph, Node, value_of

_RANGES = {
    "relu": (0.0, math.inf),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "exp": (0.0, math.inf),
    "abs": (0.0, math.inf),
    "softmax": (0.0, 1.0),
    "square": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
}


def range_of(node: Node) -> tuple[float, float]:
    """Closed interval that holds every non-NaN value of the node; NaN passes through all users."""
    if node.name in _RANGES:
        return _RANGES[node.name]
    if node.name in ("clamp", "hardtanh"):
        low = value_of(node.arg(1, "min", -math.inf if node.name == "clamp" else -1.0))
        high = value_of(node.arg(2, "max", math.inf if node.name == "clamp" else 1.0))
        return (-math.inf if low is None else low, math.inf if high is None else high)
    if node.name in ("amax", "amin", "max_pool2d", "max_pool1d", "view", "reshape", "squeeze"):
        source = node.args[0]
        return range_of(source) if isinstance(source, Node) else (-math.inf, math.inf)
    return (-math.inf, math.inf)


def constant_of(node: Node, graph: Graph) -> torch.Tensor | None:
    """The value of a node that is a constant slot, sliced or reshaped; None if it may change."""
    if node.op == "slot":
        return graph.constants.get(node.args[0])
    if node.name in ("slice", "view", "reshape", "unsqueeze", "expand", "select"):
        source = constant_of(node.args[0], graph) if isinstance(node.args[0], Node) else None
        if source is None or any(isinstance(arg, Node) for arg in node.args[1:]):
            return None
        from kernelwright.propose.search.ir import overload

        rest = [value_of(a) if not isinstance(a, int | tuple) else a for a in node.args[1:]]
        return overload(node.op)(source, *rest, **dict(node.kwargs))
    return None


def finite_scalar(arg: Arg) -> bool:
    """Whether an argument is one finite number."""
    value = value_of(arg)
    return value is not None and math.isfinite(value)
