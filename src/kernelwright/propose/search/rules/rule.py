"""What a rule is, and how a list of them is applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.propose.search.ir import Builder, Graph, Node, rebuild

Rewrite = Callable[[Node, Builder, Graph], Node | None]
"""Looks at one node, whose operands are already rewritten; its replacement, or None."""
_MAX_PASSES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite; `condition` says in words what it checks, `error` what it re-orders."""

    name: str
    rewrite: Rewrite
    condition: str
    error: str


def rewrite(graph: Graph, builder: Builder, rules: Sequence[Rule]) -> tuple[Graph, list[str]]:
    """Applies rules bottom-up until none fires; returns the graph and the rules that fired."""
    fired: list[str] = []
    for _ in range(_MAX_PASSES):
        before = len(fired)
        graph = rebuild(graph, builder, _changer(graph, builder, rules, fired))
        if len(fired) == before:
            break
    return graph, fired


def _changer(
    graph: Graph, builder: Builder, rules: Sequence[Rule], fired: list[str]
) -> Callable[[Node], Node]:
    def change(node: Node) -> Node:
        for rule in rules:
            found = rule.rewrite(node, builder, graph)
            if found is None or found is node:
                continue
            if (found.shape, found.dtype) == (node.shape, node.dtype):
                fired.append(rule.name)
                return found
        return node

    return change
