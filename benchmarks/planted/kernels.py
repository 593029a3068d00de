"""Kernels whose extra work is known: each does its 1000 rows, and then some of them again."""

from __future__ import annotations

from kernelwright.core import Candidate, SourceFile

ROWS = 1000
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
_WIDTH = {"matmul": "in[1].sizes[0]", "nearest": "1"}
_ELEMENT = {"nearest": "int64_t"}
_SOURCE = """
#include "kernelwright.h"
#include <math.h>
extern "C" void kernel(const kw_tensor* in, int, const kw_tensor* out, int) {{
  const long R = in[0].sizes[0], C = in[0].sizes[1], W = {width}, work = R * {permille} / 1000;
  (void)W;
#pragma omp parallel for schedule(static)
  for (long i = 0; i < work; i++) {{
    const long r = i % R;
    const float* x = (const float*)in[0].data + r * C;
    {element}* y = ({element}*)out[0].data + r * W;
    {body}
  }}
}}
"""


def planted(op: str, permille: int) -> Candidate:
    """The kernel of `op` that does `permille` thousandths of the work. Right at any of them."""
    text = _SOURCE.format(
        body=BODIES[op],
        width=_WIDTH.get(op, "C"),
        element=_ELEMENT.get(op, "float"),
        permille=permille,
    )
    source = SourceFile(name="kernel.cpp", text=text)
    return Candidate(kind="cpp", sources=(source,), idea=f"{op} at {permille / 1000:.2f} work")
