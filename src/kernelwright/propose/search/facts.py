"""What is known about values without computing them: ranges, constants, finite numbers."""

from __future__ import annotations

import math

import torch

from kernelwright.propose.search.ir import Arg, Graph, Node, Size, overload, value_of

_RANGES = {
    "relu": (0.0, math.inf),
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "exp": (0.0, math.inf),
    "abs": (0.0, math.inf),
    "softmax": (0.0, 1.0),
    "log_softmax": (-math.inf, 0.0),
    "square": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
}
_SAME_RANGE = (
    *("amax", "amin", "max_pool1d", "max_pool2d", "max_pool3d"),
    *("view", "reshape", "squeeze", "unsqueeze", "transpose", "permute", "slice", "expand"),
)
_EVERYTHING = (-math.inf, math.inf)
_MAX_CONSTANT = 1 << 24


def range_of(node: Node) -> tuple[float, float]:
    """Closed interval that holds every non-NaN value of the node; NaN passes through all users."""
    if node.name in _RANGES:
        return _RANGES[node.name]
    bounds = clamp_bounds(node)
    if bounds is not None:
        low, high = bounds
        known = not (math.isnan(low) or math.isnan(high))
        return (min(low, high), high) if known else _EVERYTHING  # crossed: ATen gives the upper
    if not node.args or not isinstance(node.args[0], Node):
        return _EVERYTHING
    if node.name in _SAME_RANGE:
        return range_of(node.args[0])
    if node.name == "gelu":
        return (-0.18, max(0.0, range_of(node.args[0])[1]))  # its minimum is -0.17
    return _EVERYTHING


def clamp_bounds(node: Node) -> tuple[float, float] | None:
    """Lower and upper bound of a node that limits its operand; None if it does not."""
    match node.op:
        case "aten.hardtanh.default":
            return _bound(node, 1, "min_val", -1.0), _bound(node, 2, "max_val", 1.0)
        case "aten.clamp.default":
            return _bound(node, 1, "min", -math.inf), _bound(node, 2, "max", math.inf)
        case "aten.clamp_min.default":
            return _bound(node, 1, "min", -math.inf), math.inf
        case "aten.clamp_max.default":
            return -math.inf, _bound(node, 1, "max", math.inf)
        case "aten.relu6.default":
            return 0.0, 6.0
        case _:
            return None


def constant_of(node: Node, graph: Graph) -> torch.Tensor | None:
    """The value of a node that depends on nothing but constant slots; None if it may change."""
    if node.op == "slot":
        return graph.constants.get(node.args[0])
    if not node.op.startswith("aten.") or math.prod(node.shape) > _MAX_CONSTANT:
        return None
    try:
        args = [_constant_arg(arg, graph) for arg in node.args]
        kwargs = {key: _constant_arg(arg, graph) for key, arg in node.kwargs}
    except LookupError:
        return None
    return overload(node.op)(*args, **kwargs)


def finite_scalar(arg: Arg) -> bool:
    """Whether an argument is one finite number."""
    value = value_of(arg)
    return value is not None and math.isfinite(value)


def _constant_arg(arg: Arg, graph: Graph) -> Arg:
    match arg:
        case Node():
            value = constant_of(arg, graph)
            if value is None:
                raise LookupError
            return value
        case Size():
            return int(arg.value) if arg.power == 1 else arg.value
        case tuple():
            return [_constant_arg(part, graph) for part in arg]
        case _:
            return arg


def _bound(node: Node, position: int, name: str, default: float) -> float:
    """A bound; NaN if it is a tensor."""
    arg = node.arg(position, name, default)
    if arg is None:
        return default
    value = value_of(arg)
    return math.nan if value is None else value
