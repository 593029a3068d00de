"""Prints a row program as C++.

The expressions fall into passes over the row: a pass ends where a reduction's result is needed. In
each pass a value that a later pass needs is either kept in a row buffer (it cost an exponential or
a division) or computed again (it did not).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.propose.search.templates.rowprogram import EXPENSIVE, Expr, RowProgram

_VMATH = Path(__file__).with_name("vmath.h").read_text()
_IDENTITY = {"add": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()"}
_COMBINE = {"add": "{0} + {1}", "max": "vmax({1}, {0})", "min": "vmin({1}, {0})"}


@dataclass(frozen=True, slots=True)
class RowChoice:
    """The knobs of the template."""

    stream: bool
    """Write outputs past the caches."""
    unroll: int
    """Independent accumulators, each 16 lanes."""


class _Emitter:
    def __init__(self, program: RowProgram, choice: RowChoice) -> None:
        self._program, self._choice = program, choice
        self._level: dict[int, int] = {}
        self._order: list[Expr] = []
        self._visit(program.output)
        self._kept = {
            id(e): f"keep{at}" for at, e in enumerate(e for e in self._order if self._keep(e))
        }
        self._sums = {
            id(e): f"r{at}" for at, e in enumerate(e for e in self._order if e.kind == "reduce")
        }
        self._scans = {
            id(e): f"carry{at}" for at, e in enumerate(e for e in self._order if e.kind == "scan")
        }

    def source(self) -> str:
        program = self._program
        passes = max(self._level.values()) + 1
        body = "".join(self._pass(level) for level in range(passes))
        if program.reduced:
            body += f"    y[row] = {self._scalar(program.output)};\n"
        names = sorted(self._kept.values())
        buffers = "".join(f"  float* {n} = scratch + {i} * padded;\n" for i, n in enumerate(names))
        slots = "".join(
            f"  const {kind}* s{slot} = (const {kind}*)inputs[{slot}].data;\n"
            for slot, kind in sorted(program.narrow.items())
        )
        return _SKELETON.format(
            shape_of=program.shape_of,
            slots=slots,
            buffers=buffers,
            count=max(len(names), 1),
            rows=self._row_pointers(),
            body=body,
            width="1" if program.reduced else "columns",
        )

    def _row_pointers(self) -> str:
        rows = {e.slot for e in self._order if e.kind == "row"}
        return "".join(
            f"    const {self._program.narrow[slot]}* x{slot} = s{slot} + row * columns;\n"
            for slot in sorted(rows)
        )

    def _visit(self, expr: Expr) -> int:
        if id(expr) not in self._level:
            below = max((self._visit(operand) for operand in expr.operands), default=0)
            self._level[id(expr)] = below + (expr.kind == "reduce")
            self._order.append(expr)
        return self._level[id(expr)]

    def _keep(self, expr: Expr) -> bool:
        """Dear vectors that a later pass reads again."""
        if expr.kind not in ("map", "scan") or not expr.vector:
            return False
        later = any(
            expr in user.operands and self._first_pass(user) > self._level[id(expr)]
            for user in self._order
        )
        dear = expr.kind == "scan" or any(word in expr.what for word in EXPENSIVE)
        return later and dear

    def _first_pass(self, user: Expr) -> int:
        return self._level[id(user)] - (user.kind == "reduce")

    def _pass(self, level: int) -> str:
        reductions = [
            e for e in self._order if e.kind == "reduce" and self._level[id(e)] == level + 1
        ]
        kept = [e for e in self._order if id(e) in self._kept and self._level[id(e)] == level]
        ends = not self._program.reduced and self._level[id(self._program.output)] == level
        if not (reductions or kept or ends):
            return ""
        lines: list[str] = []
        names: dict[int, str] = {}
        for expr in kept:
            value = self._vector(expr, level, names, lines)
            lines.append(f"store<FULL, false>({self._kept[id(expr)]} + c, {value}, n);")
        for expr in reductions:
            value = self._vector(expr.operands[0], level, names, lines)
            name, unit = self._sums[id(expr)], _IDENTITY[expr.what]
            value = f"only<FULL>({value}, n, {unit})"
            lines.append(f"{name}[u] = {_COMBINE[expr.what].format(f'{name}[u]', value)};")
        if ends:
            value = self._vector(self._program.output, level, names, lines)
            stream = "true" if self._choice.stream else "false"
            lines.append(f"store<FULL, {stream}>(y + c, {value}, n);")
        scans = any(e.kind == "scan" and self._level[id(e)] == level for e in self._order)
        return self._loop(lines, reductions, unroll=1 if scans else self._choice.unroll)

    def _loop(self, lines: list[str], reductions: list[Expr], *, unroll: int) -> str:
        starts = "".join(
            f"    vf {self._sums[id(e)]}[{unroll}];\n"
            f"    for (int u = 0; u < {unroll}; u++) {self._sums[id(e)]}[u] = "
            f"splat({_IDENTITY[e.what]});\n"
            for e in reductions
        )
        ends = ""
        for e in reductions:
            name = self._sums[id(e)]
            total = f"{name}[0]"
            for u in range(1, unroll):
                total = _COMBINE[e.what].format(total, f"{name}[{u}]")
            ends += f"    const float {name}_all = reduce_{e.what}({total});\n"
        text = "\n        ".join(lines)
        return starts + _LOOP.format(text=text, unroll=unroll, step=16 * unroll) + ends

    def _vector(self, expr: Expr, level: int, names: dict[int, str], lines: list[str]) -> str:
        """The name of a vector value inside the loop of this pass."""
        if not expr.vector:
            return f"splat({self._scalar(expr)})"
        if id(expr) in names:
            return names[id(expr)]
        if id(expr) in self._kept and self._level[id(expr)] < level:
            text = f"load<FULL>({self._kept[id(expr)]} + c, n)"
        elif expr.kind in ("row", "column"):
            text = f"load<FULL>({'x' if expr.kind == 'row' else 's'}{expr.slot} + c, n)"
        elif expr.kind == "scan":
            value = self._vector(expr.operands[0], level, names, lines)
            text = f"scan_add({value}, &{self._scans[id(expr)]})"
        else:
            parts = [self._vector(o, level, names, lines) for o in expr.operands]
            text = expr.what.format(*parts)
        names[id(expr)] = f"t{len(names)}"
        lines.append(f"const vf {names[id(expr)]} = {text};")
        return names[id(expr)]

    def _scalar(self, expr: Expr) -> str:
        """C++ text of a number per row: computed in one lane of a vector, once per row."""
        if expr.kind == "number":
            return expr.what
        if expr.kind == "reduce":
            return f"{self._sums[id(expr)]}_all"
        parts = [f"splat({self._scalar(operand)})" for operand in expr.operands]
        return f"({expr.what.format(*parts)})[0]"

    def scan_starts(self) -> str:
        return "".join(f"    double {name} = 0.0;\n" for name in self._scans.values())


_LOOP = """    {{
      const auto block = [&](auto full, long c, int n, int u) {{
        constexpr bool FULL = decltype(full)::value;
        (void)n; (void)u;
        {text}
      }};
      long c = 0;
      for (; c + {step} <= columns; c += {step})
        _Pragma("GCC unroll 8") for (int u = 0; u < {unroll}; u++)
          block(yes(), c + 16 * u, 16, u);
      for (; c + 16 <= columns; c += 16) block(yes(), c, 16, 0);
      if (c < columns) block(no(), c, (int)(columns - c), 0);
    }}
"""

_SKELETON = """#include "kernelwright.h"
#include "vmath.h"
#include <stdlib.h>
#include <type_traits>

using yes = std::true_type;
using no = std::false_type;

extern "C" void kernel(const kw_tensor* inputs, int, const kw_tensor* outputs, int) {{
  const kw_tensor& like = inputs[{shape_of}];
  const long columns = like.sizes[like.ndim - 1];
  long rows = 1;
  for (int d = 0; d + 1 < like.ndim; d++) rows *= like.sizes[d];
{slots}  float* const out = (float*)outputs[0].data;
  const long padded = (columns + 31) / 16 * 16;
#pragma omp parallel if (rows > 1 && rows * columns > 32768)
  {{
  float* const scratch = (float*)aligned_alloc(64, sizeof(float) * padded * {count});
{buffers}#pragma omp for schedule(static)
  for (long row = 0; row < rows; row++) {{
    float* const y = out + row * {width};
{rows}{body}  }}
  free(scratch);
  }}
}}
"""


def emit(program: RowProgram, choice: RowChoice, idea: str) -> Candidate:
    """A `cpp` Candidate for the program under one choice of the knobs."""
    emitter = _Emitter(program, choice)
    text = emitter.source()
    starts = emitter.scan_starts()
    if starts:
        text = text.replace("    float* const y = out", starts + "    float* const y = out")
    sources = (SourceFile(name="kernel.cpp", text=text), SourceFile(name="vmath.h", text=_VMATH))
    return Candidate(kind="cpp", sources=sources, idea=idea)
