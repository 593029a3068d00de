"""Reductions over a dimension that is not the last: whole vectors of columns at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.propose.search.ir import Graph, Node

_VMATH = Path(__file__).with_name("vmath.h").read_text()


@dataclass(frozen=True, slots=True)
class MiddleReduction:
    """One reduction of a contiguous float32 slot over one dimension."""

    what: str
    """argmax, argmin, amax, amin, sum or mean."""
    slot: int
    dim: int


class NotAMiddleReduction(Exception):
    """The graph is anything else."""


def match_middle(graph: Graph) -> MiddleReduction:
    """Recognises the graph. Raises NotAMiddleReduction."""
    what, node = _reduction(graph)
    source = node.args[0] if node.args else None
    if what not in _STEPS or not isinstance(source, Node) or source.op != "slot" or node.kwargs:
        raise NotAMiddleReduction
    if source.dtype != torch.float32 or source.args[0] in graph.strided:
        raise NotAMiddleReduction
    dims = node.arg(1, "dim")
    dim = dims[0] if isinstance(dims, tuple) and len(dims) == 1 else dims
    if not isinstance(dim, int) or dim % len(source.shape) == len(source.shape) - 1:
        raise NotAMiddleReduction
    return MiddleReduction(what, source.args[0], dim % len(source.shape))


def _reduction(graph: Graph) -> tuple[str, Node]:
    """Name and node of the one output; `max.dim` gives a maximum and where it is."""
    if len(graph.outputs) != 1:
        raise NotAMiddleReduction
    node = graph.outputs[0]
    if node.op == "item" and node.args[0].op in ("aten.max.dim", "aten.min.dim"):
        source, position = node.args
        return ("arg" if position else "a") + source.name, source
    return node.name, node


# A NaN wins against any number and an earlier one against a later, as in ATen.
_BETTER = "(v {sign} best[b]) | ((v != v) & (best[b] == best[b]))"
_STEPS = {
    "argmax": (_BETTER.format(sign=">"), True),
    "argmin": (_BETTER.format(sign="<"), True),
    "amax": ("best[b] = vmax(v, best[b]);", False),
    "amin": ("best[b] = vmin(v, best[b]);", False),
    "sum": ("best[b] += v;", False),
    "mean": ("best[b] += v;", False),
}


def emit_middle(reduction: MiddleReduction, *, blocks: int, idea: str) -> Candidate:
    """A `cpp` Candidate that keeps `blocks` vectors of columns in registers."""
    step, indexed = _STEPS[reduction.what]
    body = step
    if indexed:
        body = (
            f"const vi better = {step}; best[b] = better ? v : best[b]; "
            "at[b] = better ? splat_i((int)m) : at[b];"
        )
    finish = {
        "mean": "best[b] * (1.0f / (float)middle)",
    }.get(reduction.what, "best[b]")
    write = (
        "for (int l = 0; l < n; l++) ((int64_t*)y)[c + 16 * b + l] = at[b][l];"
        if indexed
        else f"{{ const vf r = {finish}; memcpy((float*)y + c + 16 * b, &r, 4 * (size_t)n); }}"
    )
    text = _SKELETON.format(
        slot=reduction.slot,
        dim=reduction.dim,
        blocks=blocks,
        body=body,
        write=write,
        element="int64_t" if indexed else "float",
    )
    sources = (SourceFile(name="kernel.cpp", text=text), SourceFile(name="vmath.h", text=_VMATH))
    return Candidate(kind="cpp", sources=sources, idea=idea)


_SKELETON = """#include "kernelwright.h"
#include "vmath.h"
#include <type_traits>

static inline vi splat_i(int x) {{ return vi{{}} + x; }}

template <bool FULL> static void reduce(
    const float* x, void* y, long middle, long inner, long c, int width) {{
  vf best[{blocks}];
  vi at[{blocks}];
  const int used = FULL ? {blocks} : (width + 15) / 16;
  for (int b = 0; b < used; b++) {{
    const int n = FULL || width - 16 * b >= 16 ? 16 : width - 16 * b;
    best[b] = n == 16 ? load<true>(x + c + 16 * b, 16) : load<false>(x + c + 16 * b, n);
    at[b] = vi{{}};
  }}
  for (long m = 1; m < middle; m++) {{
    const float* p = x + m * inner + c;
    for (int b = 0; b < used; b++) {{
      const int n = FULL || width - 16 * b >= 16 ? 16 : width - 16 * b;
      const vf v = n == 16 ? load<true>(p + 16 * b, 16) : load<false>(p + 16 * b, n);
      {body}
    }}
  }}
  for (int b = 0; b < used; b++) {{
    const int n = FULL || width - 16 * b >= 16 ? 16 : width - 16 * b;
    {write}
  }}
  (void)at;
}}

extern "C" void kernel(const kw_tensor* inputs, int, const kw_tensor* outputs, int) {{
  const kw_tensor& in = inputs[{slot}];
  long outer = 1, inner = 1;
  const long middle = in.sizes[{dim}];
  for (int d = 0; d < {dim}; d++) outer *= in.sizes[d];
  for (int d = {dim} + 1; d < in.ndim; d++) inner *= in.sizes[d];
  const int width = 16 * {blocks};
  const long tiles = (inner + width - 1) / width;
#pragma omp parallel for schedule(static) if (outer * middle * inner > 32768)
  for (long task = 0; task < outer * tiles; task++) {{
    const long o = task / tiles, c = task % tiles * width;
    const float* x = (const float*)in.data + o * middle * inner;
    {element}* y = ({element}*)outputs[0].data + o * inner;
    if (c + width <= inner) reduce<true>(x, y, middle, inner, c, width);
    else reduce<false>(x, y, middle, inner, c, (int)(inner - c));
  }}
}}
"""
