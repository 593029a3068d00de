"""Rules that remove what changes nothing."""

from __future__ import annotations

import math

from kernelwright.propose.search.facts import clamp_bounds, finite_scalar, range_of
from kernelwright.propose.search.ir import Builder, Graph, Node
from kernelwright.propose.search.rules.rule import Rule

_SHIFTS = ("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
_CENTRING = ("softmax", "log_softmax", "layer_norm", "group_norm")
_IDENTITY_FROM_ZERO = ("relu", "abs", "leaky_relu", "elu", "celu")


def drop_shift(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """Softmax(x + c) = softmax(x) for a finite number c; so for norms that subtract a mean."""
    if node.name not in _CENTRING or not isinstance(node.args[0], Node):
        return None
    inner = node.args[0]
    if inner.op not in _SHIFTS or inner.kwargs or not isinstance(inner.args[0], Node):
        return None
    if not finite_scalar(inner.args[1]) or inner.args[0].dtype != inner.dtype:
        return None
    return builder.call(node.op, inner.args[0], *node.args[1:], **dict(node.kwargs))


def drop_no_op(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """Relu, clamp and their kin on values that already lie where they change nothing."""
    if not node.args or not isinstance(node.args[0], Node) or node.args[0].dtype != node.dtype:
        return None
    source = node.args[0]
    low, high = range_of(source)
    if node.name in _IDENTITY_FROM_ZERO:
        return source if low >= 0 else None
    bounds = clamp_bounds(node)
    if bounds is None or math.isnan(bounds[0]) or math.isnan(bounds[1]):
        return None
    return source if bounds[0] <= low and high <= bounds[1] else None


RANGES = [
    Rule(
        "drop-shift",
        drop_shift,
        "c is one finite number",
        "removes a rounding; differs only where x + c overflows",
    ),
    Rule("drop-no-op", drop_no_op, "the range of the operand is proven by intervals", "exact"),
]
