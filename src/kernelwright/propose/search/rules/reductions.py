"""Rules about sums, means, maxima and what they are taken of."""

from __future__ import annotations

import torch

from kernelwright.propose.search.facts import finite_scalar, range_of
from kernelwright.propose.search.ir import Builder, Graph, Node, Size, value_of
from kernelwright.propose.search.rules.rule import Rule

_SUM, _MEAN = "aten.sum.dim_IntList", "aten.mean.dim"
_OF_ONE = ("sum", "mean", "amax", "amin", "logsumexp")
_POOLS = ("amax", "amin", "max_pool1d", "max_pool2d", "max_pool3d")
_INCREASING = ("relu", "tanh", "sigmoid", "exp", "hardtanh", "clamp", "clamp_min", "relu6")
_INCREASING_FROM_ZERO = ("sqrt", "log", "square")
_SCALINGS = ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar")
_SHIFTS = ("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")


def reduce_linear(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """sum_j (x W^T + b)_j = x . sum_j W_j + sum_j b_j: O(MNK) becomes O(NK + MK)."""
    product = _summed(node)
    if product is None or reduced_dims(node) != {len(product.shape) - 1} or node.kwargs:
        return None
    if product.name == "linear":
        x, weight, bias = product.args[0], product.args[1], product.arg(2, "bias")
        columns = _wide_total(builder, node.op, weight, 0)
        added = None if bias is None else _wide_total(builder, node.op, bias, 0)
        result = builder.call("aten.linear.default", x, columns, added)
    elif product.name in ("matmul", "mm") and len(product.args[1].shape) == 2:
        x, right = product.args
        result = builder.call("aten.matmul.default", x, _wide_total(builder, node.op, right, 1))
    else:
        return None
    return result if node.arg(2, "keepdim", False) else builder.call("aten.squeeze.dim", result, -1)


def _wide_total(builder: Builder, op: str, source: Node, dim: int) -> Node:
    """A kept sum or mean, in float64: its rounding would be repeated in every product with it."""
    if source.dtype != torch.float32:
        return builder.call(op, source, (dim,), True)
    total = builder.call(op, source, (dim,), True, dtype=torch.float64)
    return builder.call("aten.type_as.default", total, source)


def total_of(node: Node) -> Node:
    """The sum or mean below a conversion back to its source's dtype, else the node itself."""
    below = node.args[0] if node.op == "aten.type_as.default" else None
    narrowed = (
        isinstance(below, Node) and below.op in (_SUM, _MEAN) and below.args[0] is node.args[1]
    )
    return below if narrowed and isinstance(below, Node) else node


def pull_out_factor(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """sum(c x) = c sum(x) for a finite number c: the scaling runs on fewer elements."""
    scaled = _summed(node)
    if scaled is None or scaled.op not in _SCALINGS or scaled.kwargs or node.kwargs:
        return None
    source, factor = scaled.args
    if not isinstance(source, Node) or not finite_scalar(factor) or value_of(factor) == 0:
        return None
    if source.dtype != scaled.dtype or not source.dtype.is_floating_point:
        return None
    return builder.call(scaled.op, builder.call(node.op, source, *node.args[1:]), factor)


def drop_size_one(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """A sum, mean, maximum or log-sum-exp over dimensions of size one is the value itself."""
    if node.name not in _OF_ONE or node.kwargs or not isinstance(node.args[0], Node):
        return None
    source, dims = node.args[0], reduced_dims(node)
    if not dims or any(source.shape[dim] != 1 for dim in dims) or node.dtype != source.dtype:
        return None
    if graph.any_shape and _size_may_vary(source, dims):
        return None
    if bool(node.arg(2, "keepdim", False)):
        return source
    result = source
    for dim in sorted(dims, reverse=True):
        result = builder.call("aten.squeeze.dim", result, dim)
    return result


def commute_monotone(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """Max f(x) = f(max x) for an increasing f: the map runs on fewer elements."""
    if node.name not in _POOLS or not node.args or not isinstance(node.args[0], Node):
        return None
    inner = node.args[0]
    if not _increases(inner) or inner.args[0].dtype != inner.dtype:
        return None
    reduced = builder.call(node.op, inner.args[0], *node.args[1:], **dict(node.kwargs))
    return builder.call(inner.op, reduced, *inner.args[1:])


def _increases(node: Node) -> bool:
    """Whether a pointwise node never falls as its first argument rises, and keeps NaN."""
    if node.kwargs or not node.args or not isinstance(node.args[0], Node):
        return False
    rest = node.args[1:]
    if node.op in _SCALINGS:
        return finite_scalar(rest[0]) and (value_of(rest[0]) or 0.0) > 0
    if node.op in _SHIFTS:
        return finite_scalar(rest[0])
    if node.name in _INCREASING_FROM_ZERO:
        return not rest and range_of(node.args[0])[0] >= 0
    return node.name in _INCREASING and all(arg is None or finite_scalar(arg) for arg in rest)


def reduced_dims(node: Node) -> set[int]:
    """The dimensions a reduction removes, counted from the front; empty if it takes all."""
    source, dims = node.args[0], node.arg(1, "dim")
    if not isinstance(source, Node) or dims is None:
        return set()
    listed = dims if isinstance(dims, tuple) else (dims,)
    return {dim % len(source.shape) for dim in listed if isinstance(dim, int)}


def _summed(node: Node) -> Node | None:
    """What a sum or mean over given dimensions is taken of."""
    if node.op not in (_SUM, _MEAN) or not reduced_dims(node):
        return None
    return node.args[0] if isinstance(node.args[0], Node) else None


def _size_may_vary(source: Node, dims: set[int]) -> bool:
    """A size of one that came from an input may be another at the next shape."""
    if source.name in _OF_ONE and source.arg(2, "keepdim", False):
        return not dims <= reduced_dims(source)
    if source.name in ("linear", "matmul"):
        right = total_of(source.args[1])
        kept = right.name in _OF_ONE and right.arg(2, "keepdim", False)
        return not (kept and dims == {len(source.shape) - 1})
    if source.op in (*_SCALINGS, *_SHIFTS) and not isinstance(source.args[1], Node | Size):
        return _size_may_vary(source.args[0], dims)
    return True


REDUCTIONS = [
    Rule(
        "reduce-linear",
        reduce_linear,
        "the sum covers exactly the output features",
        "re-associates the sum: error K*u*sum|x||W|",
    ),
    Rule(
        "pull-out-factor",
        pull_out_factor,
        "c is one finite number and not zero",
        "one rounding instead of many; a sum may overflow where its scaled terms did not",
    ),
    Rule(
        "drop-size-one", drop_size_one, "every reduced dimension has size one at any shape", "exact"
    ),
    Rule(
        "commute-monotone",
        commute_monotone,
        "f increases over the whole range of its operand and its other arguments are numbers",
        "exact: a maximum rounds nothing",
    ),
]
