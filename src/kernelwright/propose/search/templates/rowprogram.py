"""Row programs: maps, reductions and scans along the last dimensions, whole rows kept in cache.

Lowers a Graph to expressions on one row; `emit` prints them. Softmax, norms, losses per row, masked
scans, plain maps, and products with the column sums of a matrix are all of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from kernelwright.propose.search.ir import Arg, Graph, Node, Size, value_of
from kernelwright.propose.search.rules import total_of
from kernelwright.propose.search.templates.pointwise import pointwise


class NotARowProgram(Exception):
    """The graph has an operator, dtype or shape that a row program cannot express."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value on one row: a vector along the row, or one number.

    kind: `row` (a row of a slot), `column` (one value per column: a slot, or a prologue's sums),
    `number` (C++ text), `map` (operator on operands), `reduce` (add, max, min over the row), `scan`
    (prefix sums).
    """

    kind: str
    what: str
    operands: tuple[Expr, ...] = ()
    slot: int = -1

    @property
    def vector(self) -> bool:
        """Whether it has one value per column."""
        if self.kind == "map":
            return any(operand.vector for operand in self.operands)
        return self.kind in ("row", "column", "scan")


@dataclass(frozen=True, slots=True)
class RowProgram:
    """One output, its rows and columns taken from the slot `shape_of`."""

    output: Expr
    shape_of: int
    tail: int
    """How many of the last dimensions make a row."""
    reduced: bool
    """The output has one value per row."""
    narrow: dict[int, str] = field(default_factory=dict)
    """C type of each slot that is read."""
    sums: dict[int, tuple[str, bool]] = field(default_factory=dict)
    """Matrix slots summed over `rows` or `columns` before the first row; true: the mean of them."""


_REDUCTIONS = {"sum": "add", "mean": "add", "amax": "max", "amin": "min"}
_CTYPES = {torch.float32: "float", torch.bool: "uint8_t", torch.uint8: "uint8_t"}
_COUNT = "(1.0f / (float)columns)"


def lower(graph: Graph) -> RowProgram:
    """Lowers a graph with one float32 output. Raises NotARowProgram."""
    if len(graph.outputs) != 1 or graph.outputs[0].dtype != torch.float32:
        raise NotARowProgram("it has other outputs than one of float32")
    whole = [n for n in graph.nodes() if n.op == "slot" and len(n.shape) > 1]
    if not whole:
        raise NotARowProgram("no slot has rows")
    model = max(whole, key=lambda node: (node.dtype == torch.float32, -node.args[0]))
    reasons: list[str] = []
    for tail in range(1, len(model.shape)):
        try:
            return _Lowering(graph, model, tail).run()
        except NotARowProgram as reason:
            reasons.append(str(reason))
    raise NotARowProgram("; ".join(dict.fromkeys(reasons)))


class _Lowering:
    def __init__(self, graph: Graph, model: Node, tail: int) -> None:
        self._graph, self._model = graph, model
        self._shape, self._tail = model.shape, tail
        self._done: dict[int, Expr] = {}
        self._narrow: dict[int, str] = {}
        self._sums: dict[int, tuple[str, bool]] = {}

    def run(self) -> RowProgram:
        output = self._graph.outputs[0]
        expr = self._expr(output)
        rows = self._shape[: -self._tail]
        reduced = not expr.vector
        if reduced and output.shape not in (rows, (*rows, *[1] * self._tail)):
            raise NotARowProgram(f"the output has shape {output.shape}")
        if not reduced and output.shape != self._shape:
            raise NotARowProgram(f"the output has shape {output.shape}")
        if not self._narrow:
            raise NotARowProgram("it reads no slot")
        slot = self._model.args[0]
        return RowProgram(expr, slot, self._tail, reduced, self._narrow, self._sums)

    def _expr(self, node: Node) -> Expr:
        if id(node) not in self._done:
            self._done[id(node)] = self._lower(node)
        return self._done[id(node)]

    def _lower(self, node: Node) -> Expr:
        match node.name:
            case "slot":
                return self._slot(node)
            case "softmax" | "log_softmax":
                return self._softmax(node)
            case "layer_norm" | "rms_norm":
                return self._norm(node)
            case "linear" | "matmul":
                return self._product(node)
            case "logsumexp":
                return self._logsumexp(node)
            case "cumsum":
                self._along_rows(node, (node.arg(1, "dim"),))
                return Expr("scan", "add", (self._operand(node.args[0]),))
            case name if name in _REDUCTIONS:
                return self._reduction(node)
        found = pointwise(node)
        if found is None:
            raise NotARowProgram(f"{node.op} is no row operation")
        text, operands = found
        return _map(text, *map(self._operand, operands))

    def _slot(self, node: Node) -> Expr:
        index = node.args[0]
        if index in self._graph.strided:
            raise NotARowProgram(f"slot {index} is not dense")
        if node.dtype not in _CTYPES:
            raise NotARowProgram(f"slot {index} is {node.dtype}")
        self._narrow[index] = _CTYPES[node.dtype]
        if node.shape == self._shape:
            return Expr("row", f"x{index}", slot=index)
        if node.shape == self._shape[-self._tail :] and node.dtype == torch.float32:
            return Expr("column", f"s{index}", slot=index)
        if node.shape in ((), (1,)) and node.dtype == torch.float32:
            return Expr("number", f"s{index}[0]", slot=index)
        raise NotARowProgram(f"slot {index} of shape {node.shape} is no row and no column")

    def _softmax(self, node: Node) -> Expr:
        self._along_rows(node, (node.arg(1, "dim"),))
        x = self._operand(node.args[0])
        shifted = _map("({0} - {1})", x, Expr("reduce", "max", (x,)))
        e = _map("vexp({0})", shifted)
        total = Expr("reduce", "add", (e,))
        if node.name == "softmax":
            return _map("({0} * {1})", e, _map("(1.0f / {0})", total))
        return _map("({0} - {1})", shifted, _map("vlog({0})", total))

    def _logsumexp(self, node: Node) -> Expr:
        self._along_rows(node, node.args[1])
        self._ends(node)
        x = self._operand(node.args[0])
        top = Expr("reduce", "max", (x,))
        # A row of -inf, or with an +inf, has no finite maximum to subtract.
        shift = _map("(vabs({0}) == __builtin_inff() ? splat(0.0f) : {0})", top)
        total = Expr("reduce", "add", (_map("vexp({0} - {1})", x, shift),))
        return _map("(vlog({0}) + {1})", total, shift)

    def _norm(self, node: Node) -> Expr:
        sizes = tuple(value_of(size) for size in node.args[1])
        if sizes != self._shape[-self._tail :] or node.args[0].shape != self._shape:
            raise NotARowProgram("it normalises over other dimensions than the row's")
        x, count = self._operand(node.args[0]), Expr("number", _COUNT)
        layer = node.name == "layer_norm"
        mean = _map("({0} * {1})", Expr("reduce", "add", (x,)), count)
        centred = _map("({0} - {1})", x, mean) if layer else x
        square = Expr("reduce", "add", (_map("({0} * {0})", centred),))
        eps = node.arg(4, "eps", 1e-5) if layer else node.arg(3, "eps")
        epsilon = self._operand(torch.finfo(torch.float32).eps if eps is None else eps)
        variance = _map("({0} * {1} + {2})", square, count, epsilon)
        result = _map("({0} * {1})", centred, _map("(1.0f / vsqrt({0}))", variance))
        weight, bias = node.arg(2, "weight"), node.arg(3, "bias") if layer else None
        if weight is not None:
            result = _map("({0} * {1})", result, self._operand(weight))
        return result if bias is None else _map("({0} + {1})", result, self._operand(bias))

    def _reduction(self, node: Node) -> Expr:
        dims = node.arg(1, "dim")
        if node.kwargs or not isinstance(dims, tuple):
            raise NotARowProgram(f"{node.op} over {dims}")
        self._along_rows(node, dims)
        self._ends(node)
        total = Expr("reduce", _REDUCTIONS[node.name], (self._operand(node.args[0]),))
        return _map("({0} * {1})", total, Expr("number", _COUNT)) if node.name == "mean" else total

    def _product(self, node: Node) -> Expr:
        """A row times the sums s of a matrix slot over its rows or columns: a number per row."""
        x, sums = node.args[0], total_of(node.args[1])
        axis, dim = ("rows", 0) if node.name == "linear" else ("columns", 1)
        matrix = sums.args[0] if sums.op in ("aten.sum.dim_IntList", "aten.mean.dim") else sums
        if x.shape != self._shape or self._tail != 1 or matrix.op != "slot":
            raise NotARowProgram(f"{node.op} of full matrices")
        if sums.args[1:] != ((dim,), True) or len(matrix.shape) != 2:
            raise NotARowProgram(f"{node.op} with sums of another shape")
        if matrix.dtype != torch.float32 or matrix.args[0] in self._graph.strided:
            raise NotARowProgram(f"slot {matrix.args[0]} is no dense matrix of float32")
        column = self._summed(matrix, axis, mean=sums.name == "mean")
        total = Expr("reduce", "add", (_map("({0} * {1})", self._operand(x), column),))
        bias = node.arg(2, "bias") if node.name == "linear" else None
        return total if bias is None else _map("({0} + {1})", total, self._total(bias))

    def _total(self, bias: Node) -> Expr:
        """The sum or mean of a vector slot, a number of the whole computation."""
        bias = total_of(bias)
        vector = bias.args[0]
        if bias.name not in ("sum", "mean") or vector.op != "slot" or len(vector.shape) != 1:
            raise NotARowProgram(f"{bias.op} as a bias")
        self._summed(vector, "rows", mean=bias.name == "mean")
        return Expr("number", f"sums{vector.args[0]}[0]", slot=vector.args[0])

    def _summed(self, source: Node, axis: str, *, mean: bool) -> Expr:
        index = source.args[0]
        if self._sums.setdefault(index, (axis, mean)) != (axis, mean):
            raise NotARowProgram(f"slot {index} is summed in two ways")
        self._narrow[index] = "float"
        return Expr("column", f"sums{index}", slot=index)

    def _along_rows(self, node: Node, dims: Iterable[Arg]) -> None:
        source, n = node.args[0], len(self._shape)
        row = set(range(n - self._tail, n))
        if source.shape != self._shape or {dim % n for dim in dims} != row:
            raise NotARowProgram(f"{node.op} is not along the last {self._tail} dimensions")

    def _ends(self, node: Node) -> None:
        """A number per row fits the row's other values only where its dimension is kept."""
        if not bool(node.arg(2, "keepdim", False)) and node is not self._graph.outputs[0]:
            raise NotARowProgram("a reduction without keepdim feeds another operation")

    def _operand(self, arg: Arg) -> Expr:
        if isinstance(arg, Node):
            if arg.dtype not in _CTYPES:
                raise NotARowProgram(f"{arg.op} is {arg.dtype}")
            return self._expr(arg)
        value = value_of(arg)
        if value is None:
            raise NotARowProgram(f"the argument {arg!r} is no number")
        if isinstance(arg, Size):
            text = f"((float)inputs[{arg.slot}].sizes[{arg.dim}])"
            forms = {1.0: "{}", -1.0: "(1.0f / {})", 0.5: "__builtin_sqrtf({})"}
            return Expr("number", forms.get(arg.power, "(1.0f / __builtin_sqrtf({}))").format(text))
        return Expr("number", _literal(value))


def _literal(value: float) -> str:
    if math.isfinite(value):
        return f"({value!r}f)"
    return '__builtin_nanf("")' if math.isnan(value) else f"({'-' * (value < 0)}__builtin_inff())"


def _map(what: str, *operands: Expr) -> Expr:
    return Expr("map", what, operands)
