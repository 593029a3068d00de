"""The IR that carries the search: a hash-consed DAG of functional ATen calls on slots.

An operator the rules and templates know is a primitive to them; any other is opaque and is carried
along unchanged, so that every captured graph can be printed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Size:
    """A size of an input raised to a power; `value` is what it is at the captured shape."""

    slot: int
    dim: int
    power: float
    value: float


Arg = Any
"""Node, Size, number, string, torch.dtype, None, or a tuple of these."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value. `op` is `slot`, `item` (of a call with several results) or an ATen overload."""

    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """The operator without namespace and overload: `softmax` for `aten.softmax.int`."""
        return self.op.split(".")[1] if self.op.startswith("aten.") else self.op

    def arg(self, position: int, name: str, default: Arg = None) -> Arg:
        """An argument by position or keyword."""
        if position < len(self.args):
            return self.args[position]
        return dict(self.kwargs).get(name, default)

    def operands(self) -> Iterator[Node]:
        """The nodes among the arguments, nested lists included."""
        for arg in (*self.args, *(value for _, value in self.kwargs)):
            yield from _nodes_in(arg)


@dataclass(slots=True)
class Graph:
    """A captured or rewritten computation."""

    slots: tuple[Node, ...]
    outputs: tuple[Node, ...]
    constants: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Values of constant slots: they never change, so rules may read them."""
    strided: frozenset[int] = frozenset()
    """Slots that are not laid out densely in their own order."""
    any_shape: bool = True
    """It must hold at every shape of a domain, so a size of one may be another elsewhere."""

    def nodes(self) -> list[Node]:
        """Every node the outputs need, operands first; slots included where used."""
        order: list[Node] = []
        seen: set[int] = set()
        stack = [(node, False) for node in reversed(self.outputs)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((operand, False) for operand in node.operands())
        return order

    def users(self) -> dict[int, int]:
        """How often each node (by id) is used."""
        counts: dict[int, int] = {}
        for node in self.nodes():
            for operand in node.operands():
                counts[id(operand)] = counts.get(id(operand), 0) + 1
        for output in self.outputs:
            counts[id(output)] = counts.get(id(output), 0) + 1
        return counts


class Builder:
    """Makes nodes; equal calls give the same node. Shapes come from running ATen on meta."""

    def __init__(self) -> None:
        self._interned: dict[Any, Node] = {}
        self._meta: dict[int, Any] = {}

    def slot(self, index: int, meta: torch.Tensor) -> Node:
        """An input of the computation."""
        return self._intern("slot", (index,), {}, meta)

    def call(self, op: str, *args: Arg, **kwargs: Arg) -> Node:
        """One ATen call, for example `call("aten.sum.dim_IntList", x, (1,), True)`."""
        key = _key(op, args, kwargs)
        if key not in self._interned:
            target = overload(op)
            given = _to_meta(kwargs, self._meta)
            if any(argument.name == "device" for argument in target._schema.arguments):
                given["device"] = torch.device("meta")
            result = target(*_to_meta(args, self._meta), **given)
            return self._intern(op, args, kwargs, result)
        return self._interned[key]

    def item(self, node: Node, position: int) -> Node:
        """One result of a call that has several."""
        return self._intern("item", (node, position), {}, self._meta[id(node)][position])

    def _intern(self, op: str, args: tuple[Arg, ...], kwargs: dict[str, Arg], meta: Any) -> Node:
        key = _key(op, args, kwargs)
        if key not in self._interned:
            first = meta[0] if isinstance(meta, list | tuple) else meta
            node = Node(op, args, tuple(kwargs.items()), tuple(first.shape), first.dtype)
            self._interned[key] = node
            self._meta[id(node)] = meta
        return self._interned[key]


def overload(op: str) -> Any:
    """The ATen overload behind a node's name."""
    _, packet, name = op.split(".")
    return getattr(getattr(torch.ops.aten, packet), name)


def rebuild(graph: Graph, builder: Builder, change: Callable[[Node], Node]) -> Graph:
    """Maps `change` over the graph bottom-up; it sees nodes whose operands are already new."""
    new: dict[int, Node] = {}

    def renewed(arg: Arg) -> Arg:
        if isinstance(arg, Node):
            return new[id(arg)]
        return tuple(renewed(part) for part in arg) if isinstance(arg, tuple) else arg

    for node in graph.nodes():
        if node.op == "slot":
            new[id(node)] = node
        elif node.op == "item":
            new[id(node)] = builder.item(new[id(node.args[0])], node.args[1])
        else:
            kwargs = {key: renewed(value) for key, value in node.kwargs}
            copy = builder.call(node.op, *(renewed(arg) for arg in node.args), **kwargs)
            new[id(node)] = change(copy)
    outputs = tuple(new[id(output)] for output in graph.outputs)
    return Graph(graph.slots, outputs, graph.constants, graph.strided, graph.any_shape)


def value_of(arg: Arg) -> float | None:
    """The number an argument stands for at the captured shape; None if it is no number."""
    if isinstance(arg, Size):
        return arg.value
    return float(arg) if isinstance(arg, int | float) and not isinstance(arg, bool) else None


def same(a: Arg, b: float) -> bool:
    """Whether an argument is the number b, to the precision that captured constants have."""
    value = value_of(a)
    return value is not None and math.isclose(value, b, rel_tol=1e-6)


def _nodes_in(arg: Arg) -> Iterator[Node]:
    if isinstance(arg, Node):
        yield arg
    elif isinstance(arg, tuple):
        for part in arg:
            yield from _nodes_in(part)


def _key(op: str, args: tuple[Arg, ...], kwargs: Mapping[str, Arg]) -> Any:
    return op, tuple(map(_hashable, args)), tuple((k, _hashable(v)) for k, v in kwargs.items())


def _hashable(arg: Arg) -> Any:
    if isinstance(arg, Node):
        return ("node", id(arg))
    if isinstance(arg, tuple):
        return tuple(map(_hashable, arg))
    return (type(arg).__name__, arg)  # 1, 1.0 and True are different constants


def _to_meta(arg: Any, meta: Mapping[int, Any]) -> Any:
    if isinstance(arg, Node):
        return meta[id(arg)]
    if isinstance(arg, Size):
        return int(arg.value) if arg.power == 1 else arg.value
    if isinstance(arg, tuple):
        return tuple(_to_meta(part, meta) for part in arg)
    if isinstance(arg, dict):
        return {key: _to_meta(part, meta) for key, part in arg.items()}
    return arg
