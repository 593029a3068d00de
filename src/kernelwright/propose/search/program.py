"""From the IR to a `graph` Candidate."""

from __future__ import annotations

import math
from typing import Any

import torch

from kernelwright.backends.graph_program import dump
from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.propose.search.ir import Graph, Node, Size


def to_candidate(graph: Graph, idea: str) -> Candidate:
    """Prints a graph as data that the graph backend reads."""
    number: dict[int, int] = {id(slot): at for at, slot in enumerate(graph.slots)}
    nodes: list[dict[str, Any]] = []
    for node in graph.nodes():
        if node.op in ("slot", "item"):
            continue
        entry: dict[str, Any] = {"op": node.op, "args": [_encode(a, number) for a in node.args]}
        if node.kwargs:
            entry["kwargs"] = {key: _encode(value, number) for key, value in node.kwargs}
        number[id(node)] = len(graph.slots) + len(nodes)
        nodes.append(entry)
    outputs = [_encode(output, number) for output in graph.outputs]
    text = dump(len(graph.slots), nodes, outputs)
    return Candidate(kind="graph", sources=(SourceFile(name="program.json", text=text),), idea=idea)


def _encode(arg: Any, number: dict[int, int]) -> Any:
    match arg:
        case Node(op="item", args=(source, position)):
            return {"ref": number[id(source)], "item": position}
        case Node():
            return {"ref": number[id(arg)]}
        case Size():
            return {"size": [arg.slot, arg.dim], "power": arg.power}
        case tuple():
            return [_encode(part, number) for part in arg]
        case torch.dtype():
            return {"dtype": str(arg).removeprefix("torch.")}
        case float() if not math.isfinite(arg):
            return {"float": "nan" if math.isnan(arg) else "inf" if arg > 0 else "-inf"}
        case _:
            return arg
