"""Rewrite rules: algebra that is exact in real arithmetic, each with the condition it needs.

A rule looks at one node, whose operands are already rewritten, and returns its replacement or None.
What it uses of parameters is recomputed in each call, since parameters are inputs of the Task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernelwright.propose.search.facts import constant_of, finite_scalar, range_of
from kernelwright.propose.search.ir import Builder, Graph, Node, Size, rebuild, same, value_of

Rewrite = Callable[[Node, Builder, Graph], Node | None]
_MAX_PASSES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite; `condition` says in words what it checks, `error` what it re-orders."""

    name: str
    rewrite: Rewrite
    condition: str
    error: str


def rewrite(graph: Graph, builder: Builder, rules: list[Rule]) -> tuple[Graph, list[str]]:
    """Applies rules bottom-up until none fires; returns the graph and the rules that fired."""
    fired: list[str] = []

    for _ in range(_MAX_PASSES):
        before = len(fired)

        def change(node: Node, graph: Graph = graph) -> Node:
            for rule in rules:
                found = rule.rewrite(node, builder, graph)
                if found is not None and found is not node and found.shape == node.shape:
                    fired.append(rule.name)
                    return found
            return node

        graph = rebuild(graph, builder, change)
        if len(fired) == before:
            break
    return graph, fired


def reduce_linear(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """sum_j (x W^T + b)_j = x . sum_j W_j + sum_j b_j: O(MNK) becomes O(NK + MK)."""
    if node.name not in ("sum", "mean") or not node.args or not isinstance(node.args[0], Node):
        return None
    product = node.args[0]
    dims, keep = _reduced(node), bool(node.arg(2, "keepdim", False))
    if product.name != "linear" or dims != {len(product.shape) - 1} or node.kwargs:
        return None
    x, weight, bias = product.args[0], product.args[1], product.arg(2, "bias")
    columns = builder.call(
        f"aten.{node.name}.dim_IntList" if node.name == "sum" else _MEAN, weight, (0,), True
    )
    total = None
    if bias is not None:
        total = builder.call(
            "aten.sum.dim_IntList" if node.name == "sum" else _MEAN, bias, (0,), True
        )
    result = builder.call("aten.linear.default", x, columns, total)
    return result if keep else builder.call("aten.squeeze.dim", result, -1)


_MEAN = "aten.mean.dim"


def drop_size_one(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """A sum, mean, maximum or log-sum-exp over dimensions of size one is the value itself."""
    if node.name not in ("sum", "mean", "amax", "amin", "logsumexp") or node.kwargs:
        return None
    source = node.args[0]
    dims = _reduced(node)
    if not isinstance(source, Node) or not dims or any(source.shape[d] != 1 for d in dims):
        return None
    if node.dtype != source.dtype or _shape_may_vary(graph, source, dims):
        return None
    if bool(node.arg(2, "keepdim", False)):
        return source
    result = source
    for dim in sorted(dims, reverse=True):
        result = builder.call("aten.squeeze.dim", result, dim)
    return result


_INCREASING = ("relu", "tanh", "sigmoid", "exp", "sqrt", "log", "hardtanh", "clamp", "clamp_min")


def commute_monotone(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """Max f(x) = f(max x) for an increasing f: the map runs on fewer elements."""
    if node.name not in ("amax", "amin", "max_pool2d", "max_pool1d") or not node.args:
        return None
    inner = node.args[0]
    if not isinstance(inner, Node) or inner.name not in _INCREASING or inner.kwargs:
        return None
    if not all(finite_scalar(arg) for arg in inner.args[1:]):
        return None
    reduced = builder.call(node.op, inner.args[0], *node.args[1:], **dict(node.kwargs))
    return builder.call(inner.op, reduced, *inner.args[1:])


def drop_shift(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """softmax(x + c) = softmax(x) for a finite number c, the same along the row."""
    if node.name not in ("softmax", "log_softmax") or not isinstance(node.args[0], Node):
        return None
    inner = node.args[0]
    if inner.op not in ("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor"):
        return None
    if inner.kwargs or not finite_scalar(inner.args[1]) or not isinstance(inner.args[0], Node):
        return None
    if inner.args[0].dtype != inner.dtype:
        return None
    return builder.call(node.op, inner.args[0], *node.args[1:], **dict(node.kwargs))


def drop_no_op(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """relu, clamp and hardtanh of values that already lie in their range."""
    if node.name not in ("relu", "clamp", "clamp_min", "hardtanh", "abs") or not node.args:
        return None
    source = node.args[0]
    if not isinstance(source, Node) or source.dtype != node.dtype:
        return None
    low, high = range_of(source)
    bounds = {
        "relu": (0.0, math.inf),
        "abs": (0.0, math.inf),
        "hardtanh": (_number(node.arg(1, "min_val", -1.0)), _number(node.arg(2, "max_val", 1.0))),
        "clamp": (
            _number(node.arg(1, "min"), -math.inf),
            _number(node.arg(2, "max"), math.inf),
        ),
        "clamp_min": (_number(node.arg(1, "min"), -math.inf), math.inf),
    }[node.name]
    return source if bounds[0] <= low and high <= bounds[1] else None


def fuse_attention(node: Node, builder: Builder, graph: Graph) -> Node | None:
    """softmax(mask(q k^T s)) v = scaled_dot_product_attention(q, k, v), causal where proven."""
    if node.name != "matmul" or len(node.args) != 2:
        return None
    weights, v = node.args
    if weights.name != "softmax" or weights.arg(1, "dim") not in (-1, len(weights.shape) - 1):
        return None
    scores, causal = _unmask(weights.args[0], graph)
    if scores is None:
        return None
    scores, scale = _unscale(scores)
    if scores.name != "matmul" or len(scores.shape) != 4 or len(v.shape) != 4:
        return None
    q, k_t = scores.args
    if k_t.op != "aten.transpose.int" or {d % 4 for d in k_t.args[1:]} != {2, 3}:
        return None
    k = k_t.args[0]
    if q.shape[:2] != k.shape[:2] or v.shape[:2] != k.shape[:2] or not _float(q):
        return None
    given: dict[str, object] = {"is_causal": True} if causal else {}
    if not _is_default_scale(scale, q):
        if any(isinstance(part, Size) for part in scale):
            return None
        given["scale"] = math.prod(value_of(p) or math.nan for p in scale)
    return builder.call("aten.scaled_dot_product_attention.default", q, k, v, **given)


RULES: list[Rule] = [
    Rule(
        "reduce-linear",
        reduce_linear,
        "the sum covers exactly the output features",
        "re-associates the sum: error K*u*sum|x||W|",
    ),
    Rule(
        "drop-size-one", drop_size_one, "every reduced dimension has size one at any shape", "exact"
    ),
    Rule(
        "commute-monotone",
        commute_monotone,
        "f increases and its other arguments are numbers",
        "exact: a maximum rounds nothing",
    ),
    Rule("drop-shift", drop_shift, "c is one finite number", "removes a rounding"),
    Rule("drop-no-op", drop_no_op, "the range of the operand is proven by intervals", "exact"),
    Rule(
        "fuse-attention",
        fuse_attention,
        "the mask is a constant proven lower triangular",
        "flash attention's running softmax: error of the same order",
    ),
]


def _reduced(node: Node) -> set[int]:
    source = node.args[0]
    dims = node.arg(1, "dim")
    if not isinstance(source, Node) or dims is None:
        return set()
    listed = dims if isinstance(dims, tuple) else (dims,)
    return {int(dim) % len(source.shape) for dim in listed if isinstance(dim, int)}


def _shape_may_vary(graph: Graph, source: Node, dims: set[int]) -> bool:
    """A size of one that came from an input may be another at the next shape."""
    if source.op == "slot":
        return True
    keeps = source.name in ("sum", "mean", "amax", "amin") and bool(source.arg(2, "keepdim", False))
    linear_out = source.name == "linear" and source.args[1].name in ("sum", "mean")
    return not (keeps and dims <= _reduced(source)) and not linear_out


def _unmask(node: Node, graph: Graph) -> tuple[Node | None, bool]:
    """Scores below a `masked_fill(mask == 0, -inf)`; whether the mask is proven causal."""
    if node.op != "aten.masked_fill.Scalar":
        return node, False
    scores, test, fill = node.args
    if fill != -math.inf or test.op != "aten.eq.Scalar" or not same(test.args[1], 0.0):
        return None, False
    mask = constant_of(test.args[0], graph)
    rows, columns = scores.shape[-2:]
    if mask is None or rows != columns or tuple(mask.shape[-2:]) != (rows, columns):
        return None, False
    lower = torch.ones(rows, columns).tril().bool()
    proven = bool(((mask != 0) == lower).all())
    return (scores, True) if proven else (None, False)


def _unscale(node: Node) -> tuple[Node, tuple[object, ...]]:
    """Strips a multiplication or division by a number; returns the factor's parts."""
    if node.op in ("aten.div.Tensor", "aten.mul.Tensor", "aten.div.Scalar", "aten.mul.Scalar"):
        source, factor = node.args[:2]
        value = value_of(factor)
        if isinstance(source, Node) and value is not None:
            if node.name == "mul":
                return source, (factor,)
            if isinstance(factor, Size):
                return source, (Size(factor.slot, factor.dim, -factor.power, 1 / value),)
            return source, (1 / value,)
    return node, (1.0,)


def _is_default_scale(scale: tuple[object, ...], q: Node) -> bool:
    """Whether the factor is 1/sqrt(width of q), at any shape when it is recorded as that size."""
    factor = scale[0]
    if isinstance(factor, Size):
        width = q.op == "slot" and factor.slot == q.args[0] and factor.dim == len(q.shape) - 1
        return width and factor.power == -0.5
    return same(factor, q.shape[-1] ** -0.5)


def _float(node: Node) -> bool:
    return node.dtype in (torch.float32, torch.float16, torch.bfloat16)


def _number(arg: object, default: float = math.nan) -> float:
    value = value_of(arg)
    return default if value is None else value
