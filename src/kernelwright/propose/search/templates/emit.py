"""Prints a row program as C++.

The expressions fall into passes over the row: a pass ends where a reduction's result is needed. In
each pass a value that a later pass needs is either kept in a row buffer (it cost an exponential or
a division) or computed again (it did not).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.propose.search.templates.pointwise import DEAR
from kernelwright.propose.search.templates.rowprogram import Expr, RowProgram

_HEADERS = {name: Path(__file__).with_name(name).read_text() for name in ("vmath.h", "sums.h")}
_IDENTITY = {"add": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()"}
_COMBINE = {"add": "{0} + {1}", "max": "vmax({1}, {0})", "min": "vmin({1}, {0})"}


@dataclass(frozen=True, slots=True)
class RowChoice:
    """The knobs of the template."""

    stream: bool
    """Write outputs past the caches."""
    unroll: int
    """Independent accumulators, each 16 lanes."""
    prefetch: bool = False
    """Fetch the next row while this one is worked on in cache: hardware stops at a page's end."""

    def __str__(self) -> str:
        stores = "streamed stores" if self.stream else "cached stores"
        return f"{self.unroll}x16, {stores}" + (", next row fetched early" if self.prefetch else "")


class _Emitter:
    def __init__(self, program: RowProgram, choice: RowChoice) -> None:
        self._program, self._choice = program, choice
        self._level: dict[int, int] = {}
        self._order: list[Expr] = []
        self._visit(program.output)
        self._kept = self._named("keep", [e for e in self._order if self._keep(e)])
        self._reduced = self._named("r", [e for e in self._order if e.kind == "reduce"])
        self._scans = self._named("carry", [e for e in self._order if e.kind == "scan"])
        per_row = [e for e in self._order if e.kind == "map" and not e.vector]
        self._numbers = self._named("k", per_row)
        self._loops = 0

    @property
    def passes(self) -> int:
        """How often the program walks over a row."""
        levels = [level for level in range(max(self._level.values()) + 1) if self._work(level)]
        return len(levels)

    def source(self) -> str:
        program = self._program
        starts = "".join(f"    double {name} = 0.0;\n" for name in self._scans.values())
        body = starts + "".join(
            self._constants(level) + self._pass(level)
            for level in range(max(self._level.values()) + 1)
        )
        if program.reduced:
            body += f"    y[0] = {self._scalar(program.output)};\n"
        names = sorted(self._kept.values())
        slots = "".join(
            f"  const {kind}* s{slot} = (const {kind}*)inputs[{slot}].data;\n"
            for slot, kind in sorted(program.narrow.items())
        )
        return _SKELETON.format(
            more='#include "sums.h"\n' if program.sums else "",
            shape_of=program.shape_of,
            tail=program.tail,
            slots=slots,
            before="".join(map(self._prologue, sorted(program.sums))),
            after="".join(f"  free(sums{slot});\n" for slot in sorted(program.sums)),
            buffers="".join(
                f"  float* {n} = scratch + {i} * padded;\n" for i, n in enumerate(names)
            ),
            count=max(len(names), 1),
            rows=self._row_pointers(),
            body=body,
            width="1" if program.reduced else "columns",
        )

    def _named(self, prefix: str, exprs: list[Expr]) -> dict[int, str]:
        return {id(expr): f"{prefix}{at}" for at, expr in enumerate(exprs)}

    def _prologue(self, slot: int) -> str:
        axis, mean = self._program.sums[slot]
        return f"  float* sums{slot} = {axis}_summed(inputs[{slot}], {str(mean).lower()});\n"

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
        dear = expr.kind == "scan" or any(word in expr.what for word in DEAR)
        return later and dear

    def _first_pass(self, user: Expr) -> int:
        return self._level[id(user)] - (user.kind == "reduce")

    def _constants(self, level: int) -> str:
        """Numbers per row that are known before this pass, computed once, in one lane."""
        lines = ""
        for expr in self._order:
            if id(expr) in self._numbers and self._level[id(expr)] == level:
                parts = [f"splat({self._scalar(operand)})" for operand in expr.operands]
                text = expr.what.format(*parts)
                lines += f"    const float {self._numbers[id(expr)]} = ({text})[0];\n"
        return lines

    def _work(self, level: int) -> tuple[list[Expr], list[Expr], bool] | None:
        """Reductions, values to keep, and whether the output is stored, in this pass."""
        reductions = [
            e for e in self._order if e.kind == "reduce" and self._level[id(e)] == level + 1
        ]
        kept = [e for e in self._order if id(e) in self._kept and self._level[id(e)] == level]
        ends = not self._program.reduced and self._level[id(self._program.output)] == level
        return (reductions, kept, ends) if reductions or kept or ends else None

    def _pass(self, level: int) -> str:
        work = self._work(level)
        if work is None:
            return ""
        reductions, kept, ends = work
        lines: list[str] = []
        names: dict[int, str] = {}
        for expr in kept:
            value = self._vector(expr, level, names, lines)
            lines.append(f"store<FULL, false>({self._kept[id(expr)]} + c, {value}, n);")
        for expr in reductions:
            value = self._vector(expr.operands[0], level, names, lines)
            name, unit = self._reduced[id(expr)], _IDENTITY[expr.what]
            value = f"only<FULL>({value}, n, {unit})"
            lines.append(f"{name}[u] = {_COMBINE[expr.what].format(f'{name}[u]', value)};")
        if ends:
            value = self._vector(self._program.output, level, names, lines)
            stream = "true" if self._choice.stream else "false"
            lines.append(f"store<FULL, {stream}>(y + c, {value}, n);")
        scans = any(e.kind == "scan" and self._level[id(e)] == level for e in self._order)
        return self._loop(lines, reductions, unroll=1 if scans else self._choice.unroll)

    def _loop(self, lines: list[str], reductions: list[Expr], *, unroll: int) -> str:
        starts = ends = ""
        for e in reductions:
            name = self._reduced[id(e)]
            fill = f"for (int u = 0; u < {unroll}; u++) {name}[u] = splat({_IDENTITY[e.what]});"
            starts += f"    vf {name}[{unroll}];\n    {fill}\n"
            total = f"{name}[0]"
            for u in range(1, unroll):
                total = _COMBINE[e.what].format(total, f"{name}[{u}]")
            ends += f"    const float {name}_all = reduce_{e.what}({total});\n"
        self._loops += 1
        early = ""
        if self._choice.prefetch and self._loops == 2:
            rows = sorted({e.slot for e in self._order if e.kind == "row"})
            early = "".join(f"__builtin_prefetch(x{s} + columns + c + 16 * u); " for s in rows)
        text = "\n        ".join(lines)
        loop = _LOOP.format(text=text, unroll=unroll, step=16 * unroll, early=early)
        return starts + loop + ends

    def _vector(self, expr: Expr, level: int, names: dict[int, str], lines: list[str]) -> str:
        """The name of a vector value inside the loop of this pass."""
        if not expr.vector:
            return f"splat({self._scalar(expr)})"
        if id(expr) in names:
            return names[id(expr)]
        if id(expr) in self._kept and self._level[id(expr)] < level:
            text = f"load<FULL>({self._kept[id(expr)]} + c, n)"
        elif expr.kind in ("row", "column"):
            text = f"load<FULL>({expr.what} + c, n)"
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
        """C++ text of a number per row."""
        if expr.kind == "number":
            return expr.what
        return (
            f"{self._reduced[id(expr)]}_all" if expr.kind == "reduce" else self._numbers[id(expr)]
        )


_LOOP = """    {{
      const auto block = [&](auto full, long c, int n, int u) {{
        constexpr bool FULL = decltype(full)::value;
        (void)n; (void)u;
        {text}
      }};
      long c = 0;
      for (; c + {step} <= columns; c += {step})
        _Pragma("GCC unroll 8") for (int u = 0; u < {unroll}; u++) {{
          {early}block(yes(), c + 16 * u, 16, u);
        }}
      for (; c + 16 <= columns; c += 16) block(yes(), c, 16, 0);
      if (c < columns) block(no(), c, (int)(columns - c), 0);
    }}
"""

_SKELETON = """#include "kernelwright.h"
#include "vmath.h"
{more}#include <stdlib.h>
#include <type_traits>

using yes = std::true_type;
using no = std::false_type;

extern "C" void kernel(const kw_tensor* inputs, int, const kw_tensor* outputs, int) {{
  const kw_tensor& like = inputs[{shape_of}];
  long rows = 1, columns = 1;
  for (int d = 0; d < like.ndim; d++) (d < like.ndim - {tail} ? rows : columns) *= like.sizes[d];
{slots}{before}  float* const out = (float*)outputs[0].data;
  const long padded = (columns + 31) / 16 * 16;
#pragma omp parallel if (rows > 1 && rows * columns > 32768)
  {{
  float* const scratch = (float*)aligned_alloc(64, sizeof(float) * padded * {count});
{buffers}#pragma omp for schedule(static)
  for (long row = 0; row < rows; row++) {{
    float* const y = out + row * {width};
{rows}{body}  }}
  free(scratch);
  fence();
  }}
{after}}}
"""


def emit(program: RowProgram, choice: RowChoice, idea: str) -> Candidate:
    """A `cpp` Candidate for the program under one choice of the knobs."""
    text = _Emitter(program, choice).source()
    headers = ["vmath.h", "sums.h"] if program.sums else ["vmath.h"]
    sources = [SourceFile(name=name, text=_HEADERS[name]) for name in headers]
    kernel = SourceFile(name="kernel.cpp", text=text)
    return Candidate(kind="cpp", sources=(kernel, *sources), idea=idea)


def walks(program: RowProgram) -> int:
    """How often the program walks over a row."""
    return _Emitter(program, RowChoice(stream=False, unroll=1)).passes
