"""Row programs: maps, reductions and scans along the last dimension, whole rows kept in cache.

Lowers a Graph to expressions on one row; `emit` prints them. Softmax, norms, losses per row, masked
scans and plain maps are all of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernelwright.propose.search.ir import Arg, Graph, Node, Size, value_of


class NotARowProgram(Exception):
    """The graph has an operator, dtype or shape that a row program cannot express."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value on one row: a vector along the row, or one number.

    kind: `row` (a row of a slot), `column` (a slot of one value per column), `number` (C++ text),
    `map` (operator on operands), `reduce` (add, max, min over the row), `scan` (prefix sums).
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
    narrow: dict[int, str]
    """C type of each slot that is read."""
    reduced: bool
    """The output has one value per row."""


_MAPS = {
    "relu": "vmax({0}, splat(0.0f))",
    "exp": "vexp({0})",
    "log": "vlog({0})",
    "sigmoid": "vsigmoid({0})",
    "tanh": "vtanh({0})",
    "sqrt": "vsqrt({0})",
    "rsqrt": "(1.0f / vsqrt({0}))",
    "reciprocal": "(1.0f / {0})",
    "neg": "(-{0})",
    "abs": "vabs({0})",
    "square": "({0} * {0})",
    "silu": "({0} * vsigmoid({0}))",
}
_BINARY = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "maximum": "vmax({0}, {1})",
    "minimum": "vmin({0}, {1})",
}
_REDUCTIONS = {"sum": "add", "mean": "add", "amax": "max", "amin": "min"}
EXPENSIVE = ("vexp", "vlog", "vtanh", "vsigmoid", "vsqrt", "/")
_CTYPES = {torch.float32: "float", torch.bool: "uint8_t", torch.uint8: "uint8_t"}


def lower(graph: Graph) -> RowProgram:
    """Lowers a graph with one float32 output. Raises NotARowProgram."""
    if len(graph.outputs) != 1 or graph.outputs[0].dtype != torch.float32:
        raise NotARowProgram("it has other outputs than one of float32")
    return _Lowering(graph).run()


class _Lowering:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._done: dict[int, Expr] = {}
        self._narrow: dict[int, str] = {}
        whole = [n for n in graph.nodes() if n.op == "slot" and len(n.shape) > 1]
        if not whole:
            raise NotARowProgram("no slot has rows")
        self._model = max(whole, key=lambda node: node.dtype == torch.float32)
        self._shape = self._model.shape

    def run(self) -> RowProgram:
        for node in self._graph.nodes():
            self._done[id(node)] = self._lower(node)
        output = self._graph.outputs[0]
        rows = (*self._shape[:-1], 1)
        reduced = output.shape in (rows, rows[:-1])
        if not reduced and output.shape != self._shape:
            raise NotARowProgram(f"the output has shape {output.shape}")
        expr = self._done[id(output)]
        if expr.vector == reduced:
            raise NotARowProgram("the output is no row and no number per row")
        return RowProgram(expr, self._model.args[0], self._narrow, reduced)

    def _lower(self, node: Node) -> Expr:
        if node.op == "slot":
            return self._slot(node)
        name = node.name
        if name in ("softmax", "log_softmax"):
            return self._softmax(node)
        if name in ("layer_norm", "rms_norm"):
            return self._norm(node)
        if name in _REDUCTIONS:
            return self._reduction(node)
        if name == "cumsum":
            self._along_rows(node, node.arg(1, "dim"))
            return Expr("scan", "add", (self._operand(node.args[0]),))
        if name in _MAPS and len(node.args) == 1 and not node.kwargs:
            return Expr("map", _MAPS[name], (self._operand(node.args[0]),))
        if name in _BINARY and len(node.args) == 2 and not node.kwargs:
            return Expr("map", _BINARY[name], tuple(self._operand(arg) for arg in node.args))
        raise NotARowProgram(f"{node.op} is no row operation")

    def _slot(self, node: Node) -> Expr:
        index = node.args[0]
        if index in self._graph.strided:
            raise NotARowProgram(f"slot {index} is not dense")
        if node.dtype not in _CTYPES:
            raise NotARowProgram(f"slot {index} is {node.dtype}")
        self._narrow[index] = _CTYPES[node.dtype]
        if node.shape == self._shape:
            return Expr("row", "", slot=index)
        if node.shape == self._shape[-1:] and node.dtype == torch.float32:
            return Expr("column", "", slot=index)
        raise NotARowProgram(f"slot {index} of shape {node.shape} is no row and no column")

    def _softmax(self, node: Node) -> Expr:
        self._along_rows(node, node.arg(1, "dim"))
        x = self._operand(node.args[0])
        top = Expr("reduce", "max", (x,))
        shifted = _map("({0} - {1})", x, top)
        e = _map("vexp({0})", shifted)
        total = Expr("reduce", "add", (e,))
        if node.name == "softmax":
            return _map("({0} * {1})", e, _map("(1.0f / {0})", total))
        return _map("({0} - {1})", shifted, _map("vlog({0})", total))

    def _norm(self, node: Node) -> Expr:
        sizes = node.args[1]
        if len(sizes) != 1 or value_of(sizes[0]) != self._shape[-1]:
            raise NotARowProgram("it normalises over more than the last dimension")
        x, count = self._operand(node.args[0]), Expr("number", "(1.0f / (float)columns)")
        centred = x
        if node.name == "layer_norm":
            mean = _map("({0} * {1})", Expr("reduce", "add", (x,)), count)
            centred = _map("({0} - {1})", x, mean)
        square = Expr("reduce", "add", (_map("({0} * {0})", centred),))
        eps = node.arg(4, "eps", 1e-5) if node.name == "layer_norm" else node.arg(3, "eps")
        epsilon = self._operand(1.1920928955078125e-07 if eps is None else eps)
        variance = _map("({0} * {1} + {2})", square, count, epsilon)
        result = _map("({0} * {1})", centred, _map("(1.0f / vsqrt({0}))", variance))
        weight, bias = node.arg(2, "weight"), None
        if node.name == "layer_norm":
            bias = node.arg(3, "bias")
        if weight is not None:
            result = _map("({0} * {1})", result, self._operand(weight))
        return result if bias is None else _map("({0} + {1})", result, self._operand(bias))

    def _reduction(self, node: Node) -> Expr:
        dims = node.arg(1, "dim")
        if node.kwargs or not isinstance(dims, tuple) or len(dims) != 1:
            raise NotARowProgram(f"{node.op} over {dims}")
        self._along_rows(node, dims[0])
        if not bool(node.arg(2, "keepdim", False)) and node is not self._graph.outputs[0]:
            raise NotARowProgram("a reduction without keepdim feeds another operation")
        total = Expr("reduce", _REDUCTIONS[node.name], (self._operand(node.args[0]),))
        if node.name == "mean":
            return _map("({0} * {1})", total, Expr("number", "(1.0f / (float)columns)"))
        return total

    def _along_rows(self, node: Node, dim: Arg) -> None:
        source = node.args[0]
        if source.shape != self._shape or dim not in (-1, len(self._shape) - 1):
            raise NotARowProgram(f"{node.op} is not along the last dimension")

    def _operand(self, arg: Arg) -> Expr:
        if isinstance(arg, Node):
            return self._done[id(arg)]
        value = value_of(arg)
        if value is None:
            raise NotARowProgram(f"the argument {arg!r} is no number")
        if isinstance(arg, Size):
            text = f"((float)inputs[{arg.slot}].sizes[{arg.dim}])"
            forms = {1.0: "{}", -1.0: "(1.0f / {})", 0.5: "__builtin_sqrtf({})"}
            return Expr("number", forms.get(arg.power, "(1.0f / __builtin_sqrtf({}))").format(text))
        return Expr("number", f"{value!r}f" if "." in repr(value) else f"(float)({value!r})")


def _map(what: str, *operands: Expr) -> Expr:
    return Expr("map", what, operands)
