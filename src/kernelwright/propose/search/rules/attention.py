"""Attention written out by hand, given to the fused operator."""

from __future__ import annotations

import math

import torch

from kernelwright.propose.search.facts import constant_of
from kernelwright.propose.search.ir import Arg, Builder, Graph, Node, Size, same, value_of
from kernelwright.propose.search.rules.rule import Rule

_SCALINGS = ("aten.div.Tensor", "aten.mul.Tensor", "aten.div.Scalar", "aten.mul.Scalar")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def fuse_attention(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """softmax(mask(q k^T s)) v = scaled_dot_product_attention(q, k, v), causal where proven."""
    if node.name != "matmul" or len(node.args) != 2 or len(node.shape) != 4:
        return None
    weights, v = node.args
    if (
        weights.name != "softmax"
        or weights.arg(1, "dim") not in (-1, 3)
        or weights.dtype != v.dtype
    ):
        return None
    scores, causal = _unmask(weights.args[0], graph)
    if scores is None:
        return None
    scores, scale = _unscale(scores)
    if scores.name != "matmul" or len(scores.shape) != 4:
        return None
    q, k_t = scores.args
    if k_t.op != "aten.transpose.int" or {dim % 4 for dim in k_t.args[1:]} != {2, 3}:
        return None
    k = k_t.args[0]
    if len({n.shape[:2] for n in (q, k, v)}) != 1 or q.dtype not in _FLOATS:
        return None
    if not (value_of(scale) or 0.0) > 0:  # ATen scales its mask too: -inf would become +inf
        return None
    given: dict[str, Arg] = {"is_causal": True} if causal else {}
    if not _is_default_scale(scale, q):
        if isinstance(scale, Size):
            return None
        given["scale"] = scale
    return builder.call("aten.scaled_dot_product_attention.default", q, k, v, **given)


def _unmask(node: Node, graph: Graph) -> tuple[Node | None, bool]:
    """Scores below a mask of -inf, and whether that is proven to be the causal one."""
    if node.op == "aten.masked_fill.Scalar" and node.args[2] == -math.inf:
        scores, dropped = node.args[:2]
        kept = None if (mask := constant_of(dropped, graph)) is None else ~mask.bool()
    elif node.op == "aten.where.ScalarOther" and node.args[2] == -math.inf:
        scores = node.args[1]
        kept = None if (mask := constant_of(node.args[0], graph)) is None else mask.bool()
    else:
        return node, False
    rows, columns = scores.shape[-2:]
    if kept is None or rows != columns or tuple(kept.shape[-2:]) != (rows, columns):
        return None, False
    causal = bool((kept == torch.ones(rows, columns).tril().bool()).all())
    return (scores, True) if causal else (None, False)


def _unscale(node: Node) -> tuple[Node, Size | float]:
    """Strips a multiplication or division by a number; returns the factor."""
    value = value_of(node.args[1]) if node.op in _SCALINGS else None
    if value is None or not isinstance(node.args[0], Node):
        return node, 1.0
    source, factor = node.args
    if node.name == "mul":
        return source, factor
    if isinstance(factor, Size):
        return source, Size(factor.slot, factor.dim, -factor.power, 1 / value)
    return source, 1 / value


def _is_default_scale(scale: Size | float, q: Node) -> bool:
    """Whether the factor is 1/sqrt(width of q), at any shape when it is recorded as that size."""
    if isinstance(scale, Size):
        width = q.op == "slot" and (scale.slot, scale.dim) == (q.args[0], len(q.shape) - 1)
        return width and scale.power == -0.5
    return same(scale, q.shape[-1] ** -0.5)


ATTENTION = [
    Rule(
        "fuse-attention",
        fuse_attention,
        "the mask is a constant proven lower triangular, the factor positive",
        "flash attention's running softmax: error of the same order",
    ),
]
