"""Kernels whose extra work is known: each does every row 100 times, or 103, or 110.

A whole number per row, so that the cores share the added work as evenly as the rest. What is not
multiplied (the first read of a row from memory, waking the second thread) takes some 0.1 ms, so a
call is made to last 10 ms: at 3 ms, 1.10 came out as 1.097. All ratios are entries of one library,
so that they run the same machine code: another constant alone moved a loop's alignment, and its
time by 5 %. `stream` has no such twin: memory-bound, for A/A alone.
"""

from __future__ import annotations

from kernelwright.core import Candidate, SourceFile

REPEATS = 100
BODIES = {
    "rowmap": "for (long c = 0; c < C; c++) y[c] = tanhf(expf(-x[c] * x[c]));",
    "softmax": """
      float top = -INFINITY;
      double sum = 0;
      for (long c = 0; c < C; c++) top = x[c] > top ? x[c] : top;
      for (long c = 0; c < C; c++) sum += y[c] = expf(x[c] - top);
      const float scale = (float)(1 / sum);
      for (long c = 0; c < C; c++) y[c] *= scale;""",
    "logcumsumexp": """
      double run = -INFINITY;
      for (long c = 0; c < C; c++) {
        const double high = run > x[c] ? run : x[c], low = run > x[c] ? x[c] : run;
        run = high + log1p(exp(low - high));
        y[c] = (float)run;
      }""",
    "matmul": """
      const float* b = (const float*)in[1].data;
      const long N = in[1].sizes[0];
      for (long j = 0; j < N; j++) {
        float lanes[8] = {0};
        for (long k = 0; k < C; k += 8)
          for (int l = 0; l < 8; l++) lanes[l] += x[k + l] * b[j * C + k + l];
        float sum = 0;
        for (int l = 0; l < 8; l++) sum += lanes[l];
        y[j] = sum;
      }""",
    "nearest": """
      const float* b = (const float*)in[1].data;
      const long N = in[1].sizes[0];
      float best = INFINITY;
      for (long j = 0; j < N; j++) {
        float sum = 0;
        for (long k = 0; k < C; k++) { const float d = x[k] - b[j * C + k]; sum += d * d; }
        if (sum < best) { best = sum; y[0] = j; }
      }""",
}
STREAM = "for (long c = 0; c < C; c++) y[c] = 2 * x[c] + 1;"
_WIDTH = {"matmul": "in[1].sizes[0]", "nearest": "1"}
_ELEMENT = {"nearest": "int64_t"}
_SOURCE = """
#include "kernelwright.h"
#include <math.h>
static __attribute__((noinline)) void work(
    const kw_tensor* in, const kw_tensor* out, const long each) {{
  const long R = in[0].sizes[0], C = in[0].sizes[1], W = {width};
  (void)W;
#pragma omp parallel for schedule(static)
  for (long r = 0; r < R; r++) {{
    const float* x = (const float*)in[0].data + r * C;
    {element}* y = ({element}*)out[0].data + r * W;
    for (long again = r * each / 1000; again < (r + 1) * each / 1000; again++) {{
      {body}
      __asm__ volatile("" : : "r"(x), "r"(y) : "memory"); /* each time anew */
    }}
  }}
}}
#define ENTRY(permille)                                                                        \\
  extern "C" void at_##permille(const kw_tensor* in, int, const kw_tensor* out, int) {{        \\
    work(in, out, {repeats}L * permille);                                                      \\
  }}
ENTRY(1000) ENTRY(1030) ENTRY(1100)
"""


def planted(op: str, permille: int) -> Candidate:
    """The kernel of `op` that does `permille` thousandths of the work. Right at any of them."""
    text = _SOURCE.format(
        body=BODIES.get(op, STREAM),
        repeats=1 if op == "stream" else REPEATS,
        width=_WIDTH.get(op, "C"),
        element=_ELEMENT.get(op, "float"),
    )
    source = SourceFile(name="kernel.cpp", text=text)
    idea = f"{op} at {permille / 1000:.2f} work"
    return Candidate(kind="cpp", sources=(source,), entry=f"at_{permille}", idea=idea)
