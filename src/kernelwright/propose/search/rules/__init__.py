"""Algebra that is exact in real arithmetic, each rule with the condition it needs.

In: a Graph. Out: an equal Graph that costs less, and the names of the rules that fired. What a rule
uses of parameters is recomputed in each call, since parameters are inputs of the Task.
"""

from kernelwright.propose.search.rules.attention import ATTENTION
from kernelwright.propose.search.rules.ranges import RANGES
from kernelwright.propose.search.rules.reductions import REDUCTIONS, total_of
from kernelwright.propose.search.rules.rule import Rule, rewrite

RULES: list[Rule] = [*REDUCTIONS, *RANGES, *ATTENTION]

__all__ = ["RULES", "Rule", "rewrite", "total_of"]
