"""Outputs that jump: indices and flags, judged by the values they were chosen by.

Such an output is right where it equals the oracle's or eager's answer. Elsewhere it needs an excuse
that only rounding can give: the two values it could have confused lie within the error budget of
each other in float64. Where both are numbers of the Task's own dtype no rounding went into them
(they are inputs, or exact results), so there is no excuse: the largest must be found, and on an
exact tie the one that the reference's rule picks. PyTorch promises the first for argmax and max;
for topk and an unstable sort it promises nothing, so any order of equal values is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kernelwright.judge.verify.budget import BUDGETS, Comparison, unit_roundoff

Operands = tuple[torch.Tensor, ...]
Kind = Literal["first", "ranked", "stable", "flag"]


@dataclass(frozen=True, slots=True)
class Choice:
    """An output that an operator chose by comparing values."""

    kind: Kind
    """`first`: an index, first of equals. `ranked`: indices in order, equals in any; `stable`: in
    their own. `flag`: a comparison."""
    values: Operands
    """What was compared, in float64: one tensor for indices, two for a flag."""
    dim: int
    """Dimension the index runs over; of no meaning for a flag."""
    shape: tuple[int, ...]
    """Of the operator's output, with `dim` kept."""
    dtype: torch.dtype
    """The Task's own floating dtype."""
    scale: Callable[[], Operands]
    """S of each of `values`, computed when asked for."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A discrete output of any other origin: what the oracle says when its inputs move a little."""

    nearby: Callable[[], list[torch.Tensor]]


Origin = Choice | Derived
Scale = torch.Tensor | Origin
"""What an error is held against: S per element, or how an index or flag came to be."""


def compare_discrete(
    name: str,
    got: torch.Tensor,
    want: torch.Tensor,
    own: torch.Tensor,
    *,
    origin: Callable[[], Origin | None],
    precision: str,
) -> Comparison:
    """Judges one index or flag output.

    Args:
        name: of the output, for the reason.
        got: the Candidate's.
        want: the oracle's.
        own: eager's.
        origin: how the output came to be; asked for only where `got` is neither.
        precision: the Task's class.
    """
    open_ = (got != want) & (got != own)
    if not bool(open_.any()):
        return Comparison(True, "", 0.0, 0.0)
    match origin():
        case Choice() as choice:
            wrong, used = _judge_choice(got, want, open_, choice, precision=precision)
        case Derived(nearby=nearby):
            excused = torch.zeros_like(open_)
            for other in nearby():
                excused |= got == other
            wrong, used = open_ & ~excused, 1.0
        case None:
            wrong, used = open_, 1.0
    count = int(wrong.sum())
    if count == 0:
        return Comparison(True, "", used, 0.0)
    at = tuple(int(i) for i in wrong.nonzero()[0])
    reason = f"{name} differs at {count} of {got.numel()} places, first at {list(at)}: "
    reason += f"{got[at].item()} instead of {want[at].item()}"
    return Comparison(False, reason, math.inf, math.inf)


def _judge_choice(
    got: torch.Tensor, want: torch.Tensor, open_: torch.Tensor, choice: Choice, *, precision: str
) -> tuple[torch.Tensor, float]:
    """Which of the open places are wrong, and the largest share of the budget among the others."""
    mine, right, judged = (t.reshape(choice.shape) for t in (got, want, open_))
    wrong = torch.zeros_like(judged)
    if choice.kind != "flag":
        wrong = judged & ((mine < 0) | (mine >= choice.values[0].shape[choice.dim]))
        mine = torch.where(wrong, right, mine)
    if choice.kind in ("ranked", "stable"):
        wrong = wrong | (judged & _repeated(mine, choice.dim))
    picked, best = _pick(choice, choice.values, mine, right)
    exact = _representable(picked, choice.dtype) & _representable(best, choice.dtype)
    tied = picked == best
    excusable = tied if choice.kind == "ranked" else tied & ~exact
    wrong = wrong | (judged & exact & ~excusable)
    left = judged & ~wrong & ~tied
    if not bool(left.any()):
        return wrong.reshape(got.shape), 0.0
    s_picked, s_best = _pick(choice, choice.scale(), mine, right)
    u = unit_roundoff(choice.dtype, precision)
    allowed = (s_picked + s_best) * (BUDGETS.condition_max * u)
    share = ((picked - best).abs() / allowed.clamp_min(1e-300)).where(left, 0.0)
    wrong = wrong | (share > 1.0)
    return wrong.reshape(got.shape), float(share.where(~wrong, 0.0).max())


def _pick(
    choice: Choice, operands: Operands, mine: torch.Tensor, right: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if choice.kind == "flag":
        left, other = (operand.broadcast_to(choice.shape) for operand in operands)
        return left, other
    (values,) = operands
    return values.gather(choice.dim, mine.long()), values.gather(choice.dim, right.long())


def _representable(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.float64:
        return torch.zeros_like(values, dtype=torch.bool)  # the oracle itself rounds to it
    return values.to(dtype).double() == values


def _repeated(index: torch.Tensor, dim: int) -> torch.Tensor:
    """Every place of a row in which some index stands twice."""
    ordered = index.sort(dim).values
    twice = (ordered.diff(dim=dim) == 0).any(dim, keepdim=True)
    return twice.expand_as(index)


class Sources:
    """Remembers which operator made each index or flag during one run of the oracle."""

    def __init__(self) -> None:
        self._made: list[tuple[torch.Tensor, Source]] = []

    def see(self, func: Any, given: Mapping[str, Any], result: Any) -> None:
        """Told of every operator that ran, with its arguments by name."""
        name = func._schema.name
        if name in _LONE:
            self._made.append((result, _LONE[name](given)))
        elif name in _SECOND and not isinstance(result, torch.Tensor):
            self._made.append((result[1], _SECOND[name](given)))

    def of(self, output: torch.Tensor) -> Source | None:
        """The operator whose result this output is, if it was returned as it was made."""
        pointer = output.untyped_storage().data_ptr()
        for made, source in reversed(self._made):
            same = made.untyped_storage().data_ptr() == pointer and made.numel() == output.numel()
            if same and made.is_contiguous() and output.is_contiguous():
                return source
        return None


@dataclass(frozen=True, slots=True)
class Source:
    """What a discrete output was chosen by, as one run of the oracle saw it; see `Choice`."""

    kind: Kind
    values: Operands
    dim: int
    shape: tuple[int, ...]


def _read_arg(given: Mapping[str, Any]) -> Source:
    values, dim = given["self"], given.get("dim")
    if dim is None:
        return Source("first", (values.reshape(-1),), 0, (1,))
    return _index_source("first", values, dim, 1)


def _read_extreme(given: Mapping[str, Any]) -> Source:
    return _index_source("first", given["self"], given["dim"], 1)


def _read_topk(given: Mapping[str, Any]) -> Source:
    return _index_source("ranked", given["self"], given.get("dim", -1), given["k"])


def _read_sort(given: Mapping[str, Any]) -> Source:
    values, dim = given["self"], given.get("dim", -1)
    kind = "stable" if given.get("stable") else "ranked"
    return _index_source(kind, values, dim, values.shape[dim] if values.dim() else 1)


def _read_comparison(given: Mapping[str, Any]) -> Source:
    left, other = (torch.as_tensor(given[name], dtype=torch.float64) for name in ("self", "other"))
    shape = torch.broadcast_shapes(left.shape, other.shape)
    return Source("flag", (left, other), 0, tuple(shape))


def _index_source(kind: Kind, values: torch.Tensor, dim: int, count: int) -> Source:
    values = values if values.dim() else values.reshape(1)
    at = dim % values.dim()
    shape = tuple(count if axis == at else size for axis, size in enumerate(values.shape))
    return Source(kind, (values.double(),), at, shape)


_Reader = Callable[[Mapping[str, Any]], Source]
_LONE: dict[str, _Reader] = {
    "aten::argmax": _read_arg,
    "aten::argmin": _read_arg,
    **{f"aten::{name}": _read_comparison for name in ("gt", "lt", "ge", "le", "eq", "ne")},
}
"""Operators that return the index or flag alone."""
_SECOND: dict[str, _Reader] = {
    "aten::max": _read_extreme,
    "aten::min": _read_extreme,
    "aten::topk": _read_topk,
    "aten::sort": _read_sort,
}
"""Operators whose second result is the index; max and min of a whole tensor return no index."""
