"""The proposer: algebra first, then templates, then more measurements where it is promising."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Rejected, Verdict
from kernelwright.propose.protocol import Problem
from kernelwright.propose.search.capture import CaptureFailed, capture
from kernelwright.propose.search.ir import Builder, Graph
from kernelwright.propose.search.program import to_candidate
from kernelwright.propose.search.rules import RULES, rewrite
from kernelwright.propose.search.templates.emit import RowChoice, emit, walks
from kernelwright.propose.search.templates.middle import (
    NotAMiddleReduction,
    emit_middle,
    match_middle,
)
from kernelwright.propose.search.templates.rowprogram import NotARowProgram, lower

_MIDDLE_BLOCKS = (8, 4, 16, 2)
_CACHE_BYTES = 8 << 20
"""Per-core caches and a fair share of the last level."""
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 2)


class SearchProposer:
    """Yields rewritten graphs, then template variants, then the better half of them again."""

    def propose(self, problem: Problem, history: Sequence[Verdict]) -> Iterator[Candidate]:
        """See `Proposer.propose`. Where the reference cannot be captured, a note says why."""
        try:
            graph, builder = capture(
                problem.reference,
                problem.shape,
                problem.signature,
                other_shape=another_shape(problem.reference.domain, problem.shape),
            )
        except CaptureFailed as error:
            problem.note(f"the search cannot read this task: {error}")
            return
        seen: dict[str, Candidate] = {}
        for candidate in _first_round(graph, builder):
            if candidate.id not in seen:
                seen[candidate.id] = candidate
                yield candidate
        if not seen:
            problem.note("the search has no idea for this task: no rule or template applies")
        yield from _halve(seen, history)


def _first_round(graph: Graph, builder: Builder) -> Iterator[Candidate]:
    """One template of the rewritten form, the rewritten graph, then everything else.

    A template builds in a second and torch.compile takes ten; but what no template covers is as
    likely to win through the graph.
    """
    rewritten, fired = rewrite(graph, builder, RULES)
    rest = _templates(rewritten, "rewritten, " if fired else "")
    yield from itertools.islice(rest, 1)
    if fired:
        yield to_candidate(rewritten, " + ".join(dict.fromkeys(fired)))
    yield from rest
    if fired:
        yield from _templates(graph, "")
    for name in dict.fromkeys(fired):
        alone, applied = rewrite(graph, builder, [rule for rule in RULES if rule.name == name])
        if applied and len(set(fired)) > 1:
            yield to_candidate(alone, f"{name} alone")


def _templates(graph: Graph, prefix: str) -> Iterator[Candidate]:
    try:
        program = lower(graph)
    except NotARowProgram:
        program = None
    if program is not None:
        for choice in _row_choices(walks(program), _bytes_moved(graph)):
            yield emit(program, choice, f"{prefix}row program, {choice}")
    try:
        reduction = match_middle(graph)
    except NotAMiddleReduction:
        return
    for blocks in _MIDDLE_BLOCKS:
        yield emit_middle(reduction, blocks=blocks, idea=f"{prefix}columns {16 * blocks} at a time")


def _row_choices(walks_over_row: int, bytes_moved: int) -> list[RowChoice]:
    """Knobs, likely ones first: streaming pays once outputs would push inputs out of cache."""
    first = bytes_moved > _CACHE_BYTES
    again = walks_over_row > 1
    return [
        RowChoice(stream=stream, unroll=unroll, prefetch=prefetch)
        for unroll, prefetch in ((4, again), (1, again), (2, False))
        for stream in (first, not first)
    ]


def _bytes_moved(graph: Graph) -> int:
    used = [node for node in graph.nodes() if node.op == "slot"]
    return sum(math.prod(node.shape) * node.dtype.itemsize for node in (*used, *graph.outputs))


def _halve(seen: dict[str, Candidate], history: Sequence[Verdict]) -> Iterator[Candidate]:
    """Successive halving (Jamieson, Talwalkar, AISTATS 2016): measure again what leads."""
    keep = len(seen)
    while keep > 1:
        keep = math.ceil(keep / 2)
        gains = {identity: _gain(identity, history) for identity in seen}
        ranked = sorted((i for i in gains if gains[i] > 0.0), key=lambda i: -gains[i])
        for identity in ranked[:keep]:
            yield seen[identity]


def _gain(identity: str, history: Sequence[Verdict]) -> float:
    """Geometric mean of the speed-ups measured so far; 0 where it was rejected or never timed."""
    mine = [verdict for verdict in history if verdict.candidate == identity]
    gains = [verdict.speedup.mid for verdict in mine if verdict.speedup is not None]
    if not gains or any(isinstance(verdict.outcome, Rejected) for verdict in mine):
        return 0.0
    return math.exp(sum(map(math.log, gains)) / len(gains))


def another_shape(
    domain: Mapping[str, tuple[int, int]], shape: Mapping[str, int]
) -> dict[str, int] | None:
    """A second shape, to tell sizes from constants: unlike in every size, and no two alike."""
    if not domain:
        return None
    taken: set[int] = set()
    other: dict[str, int] = {}
    narrow_first = sorted(shape, key=lambda name: domain[name][1] - domain[name][0])
    for name in narrow_first:
        (low, high), size = domain[name], shape[name]
        primes = (p for p in _PRIMES if low <= p <= high and p != size and p not in taken)
        other[name] = next(primes, low if low != size else high)
        taken.add(other[name])
    return other
