"""Pointwise ATen calls as C++ text over vectors of floats; a boolean is 0 or 1.

Every text keeps ATen's treatment of NaN: a comparison that NaN loses must lead to the branch that
returns it.
"""

from __future__ import annotations

import torch

from kernelwright.propose.search.ir import Arg, Node, value_of

_MAPS = {
    "relu": "vmax({0}, splat(0.0f))",
    "exp": "vexp({0})",
    "expm1": "vexpm1({0})",
    "log": "vlog({0})",
    "log1p": "vlog1p({0})",
    "sigmoid": "vsigmoid({0})",
    "log_sigmoid": "(vmin({0}, splat(0.0f)) - vlog1p(vexp(-vabs({0}))))",
    "tanh": "vtanh({0})",
    "erf": "verf({0})",
    "sqrt": "vsqrt({0})",
    "rsqrt": "(1.0f / vsqrt({0}))",
    "reciprocal": "(1.0f / {0})",
    "neg": "(-{0})",
    "abs": "vabs({0})",
    "square": "({0} * {0})",
    "silu": "({0} * vsigmoid({0}))",
    "mish": "({0} * vtanh_softplus({0}))",
    "hardsigmoid": "(vmin(vmax({0} + 3.0f, splat(0.0f)), splat(6.0f)) / 6.0f)",
    "hardswish": "({0} * vmin(vmax({0} + 3.0f, splat(0.0f)), splat(6.0f)) / 6.0f)",
    "relu6": "vmin(vmax({0}, splat(0.0f)), splat(6.0f))",
    "selu": "({0} > 0.0f ? {0} : vexpm1({0}) * 1.6732632f) * 1.0507010f",
}
_BINARY = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "rsub": "({1} - {0})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "maximum": "vmax({0}, {1})",
    "minimum": "vmin({0}, {1})",
    "clamp_min": "vmax({0}, {1})",
    "clamp_max": "vmin({0}, {1})",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_LOGIC = {
    "logical_not": "({0} != 0.0f ? splat(0.0f) : splat(1.0f))",
    "bitwise_not": "(1.0f - {0})",
    "logical_and": "({0} * {1})",
    "bitwise_and": "({0} * {1})",
    "logical_or": "vmax({0}, {1})",
    "bitwise_or": "vmax({0}, {1})",
}
_POWERS = {
    2.0: "({0} * {0})",
    3.0: "({0} * {0} * {0})",
    0.5: "vsqrt({0})",
    -0.5: "(1.0f / vsqrt({0}))",
    -1.0: "(1.0f / {0})",
}
_GELU = {
    "none": "(0.5f * {0} * (1.0f + verf({0} * 0.70710678f)))",
    "tanh": "(0.5f * {0} * (1.0f + vtanh(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0}))))",
}
DEAR = ("vexp", "vlog", "vtanh", "vsigmoid", "verf", "vsqrt", "/")
"""What is worth keeping in memory rather than computing twice."""


def pointwise(node: Node) -> tuple[str, tuple[Arg, ...]] | None:
    """C++ text with a field per operand, and those operands; None if there is none."""
    if node.dtype == torch.bool:
        return _boolean(node)
    if node.dtype != torch.float32:
        return None
    if node.name in ("_to_copy", "to", "clone", "contiguous", "alias", "detach"):
        return _converted(node)
    if node.name in _MAPS and len(node.args) == 1 and not node.kwargs:
        return _MAPS[node.name], node.args
    if node.name in _BINARY and len(node.args) == 2 and not node.kwargs:
        return _BINARY[node.name], node.args
    return _parametric(node)


def _boolean(node: Node) -> tuple[str, tuple[Arg, ...]] | None:
    if node.name in _COMPARISONS and len(node.args) == 2:
        text = f"({{0}} {_COMPARISONS[node.name]} {{1}} ? splat(1.0f) : splat(0.0f))"
        return text, node.args
    booleans = all(operand.dtype == torch.bool for operand in node.operands())
    if node.name in _LOGIC and (booleans or node.name == "logical_not"):
        return _LOGIC[node.name], node.args
    return None


def _converted(node: Node) -> tuple[str, tuple[Arg, ...]] | None:
    source = node.args[0]
    known = isinstance(source, Node) and source.dtype in (torch.float32, torch.bool, torch.uint8)
    return ("{0}", (source,)) if known else None


def _parametric(node: Node) -> tuple[str, tuple[Arg, ...]] | None:
    """Calls with parameters, by position or name."""
    x = node.args[0] if node.args else None
    match node.op:
        case "aten.leaky_relu.default":
            slope = node.arg(1, "negative_slope", 0.01)
            return "({0} > 0.0f ? {0} : {0} * {1})", (x, slope)
        case "aten.hardtanh.default":
            bounds = node.arg(1, "min_val", -1.0), node.arg(2, "max_val", 1.0)
            return "vmin(vmax({0}, {1}), {2})", (x, *bounds)
        case "aten.clamp.default":
            return _clamp(x, node.arg(1, "min"), node.arg(2, "max"))
        case "aten.elu.default":
            rest = (node.arg(1, "alpha", 1.0), node.arg(2, "scale", 1.0))
            scaled = (*rest, node.arg(3, "input_scale", 1.0))
            return "({0} > 0.0f ? {0} : vexpm1({0} * {3}) * {1}) * {2}", (x, *scaled)
        case "aten.softplus.default":
            rest = (node.arg(1, "beta", 1.0), node.arg(2, "threshold", 20.0))
            return "({0} * {1} > {2} ? {0} : vlog1p(vexp({0} * {1})) / {1})", (x, *rest)
        case "aten.gelu.default":
            return _GELU[node.arg(1, "approximate", "none")], (x,)
        case "aten.pow.Tensor_Scalar":
            text = _POWERS.get(value_of(node.args[1]) or 0.0)
            return None if text is None else (text, (x,))
        case "aten.masked_fill.Scalar":
            return "({1} != 0.0f ? {2} : {0})", node.args
        case "aten.where.self" | "aten.where.ScalarOther" | "aten.where.ScalarSelf":
            return "({0} != 0.0f ? {1} : {2})", node.args
        case _:
            return None


def _clamp(x: Arg, low: Arg, high: Arg) -> tuple[str, tuple[Arg, ...]]:
    if low is None:
        return "vmin({0}, {1})", (x, high)
    if high is None:
        return "vmax({0}, {1})", (x, low)
    return "vmin(vmax({0}, {1}), {2})", (x, low, high)
