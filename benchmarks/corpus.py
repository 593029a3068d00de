"""Kernels by hand, in plain C++: honest ones in different styles, and wrong ones."""

from __future__ import annotations

HEAD = """
#include "kernelwright.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
extern "C" void kernel(const kw_tensor* in, int, const kw_tensor* out, int) {
"""
ROWS = """
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  const long R = in[0].sizes[0], C = in[0].sizes[1];
"""
NORM = """
  const float* w = (const float*)in[1].data;
  const float* b = (const float*)in[2].data;
"""
PARALLEL = "\n#pragma omp parallel for schedule(static)\n"


def rows(body: str, extra: str = "", loop: str = PARALLEL) -> str:
    """One row at a time: `p` reads, `q` writes."""
    start = "  for (long r = 0; r < R; r++) { const float* p = x + r * C; float* q = y + r * C;\n"
    return HEAD + ROWS + extra + loop + start + body + "\n  }\n}\n"


SOFTMAX = """
    float top = -INFINITY; double sum = 0;
    for (long c = 0; c < C; c++) top = fmaxf(top, p[c]);
    for (long c = 0; c < C; c++) sum += q[c] = expf(p[c] - top);
    const float k = (float)(1 / sum);
    for (long c = 0; c < C; c++) q[c] *= k;"""
ONLINE = """
    float top = -INFINITY; double sum = 0;
    for (long c = 0; c < C; c++) {
      if (p[c] > top) { sum *= exp((double)top - p[c]); top = p[c]; }
      sum += expf(p[c] - top);
    }
    for (long c = 0; c < C; c++) q[c] = expf(p[c] - top) / (float)sum;"""
LANES = """
    float top = -INFINITY, lane[8] = {0};
    for (long c = 0; c < C; c++) top = p[c] > top ? p[c] : top;
    for (long c = 0; c < C; c++) lane[c & 7] += q[c] = expf(p[c] - top);
    const float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                      ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (long c = 0; c < C; c++) q[c] = q[c] / sum;"""
BACKWARD = """
    float top = p[C - 1]; double sum = 0;
    for (long c = C - 1; c >= 0; c--) top = p[c] > top ? p[c] : top;
    for (long c = C - 1; c >= 0; c--) sum += q[c] = expf(p[c] - top);
    for (long c = 0; c < C; c++) q[c] = (float)(q[c] / sum);"""
FLOAT_SUM = SOFTMAX.replace("double sum", "float sum")
LAYERNORM = """
    double mean = 0, var = 0;
    for (long c = 0; c < C; c++) mean += p[c];
    mean /= C;
    for (long c = 0; c < C; c++) var += (p[c] - mean) * (p[c] - mean);
    const float k = (float)(1 / sqrt(var / C + 1e-5));
    for (long c = 0; c < C; c++) q[c] = (float)(p[c] - mean) * k * w[c] + b[c];"""
WELFORD = """
    double mean = 0, m2 = 0;
    for (long c = 0; c < C; c++) {
      const double d = p[c] - mean; mean += d / (c + 1); m2 += d * (p[c] - mean);
    }
    const float k = (float)(1 / sqrt(m2 / C + 1e-5));
    for (long c = 0; c < C; c++) q[c] = (float)(p[c] - mean) * k * w[c] + b[c];"""
PAIRWISE = """
    float a[16] = {0}, v[16] = {0};
    for (long c = 0; c < C; c++) a[c & 15] += p[c];
    for (int s = 8; s; s /= 2) for (int l = 0; l < s; l++) a[l] += a[l + s];
    const float mean = a[0] / C;
    for (long c = 0; c < C; c++) v[c & 15] += (p[c] - mean) * (p[c] - mean);
    for (int s = 8; s; s /= 2) for (int l = 0; l < s; l++) v[l] += v[l + s];
    const float k = 1 / sqrtf(v[0] / C + 1e-5f);
    for (long c = 0; c < C; c++) q[c] = (p[c] - mean) * k * w[c] + b[c];"""
FLOAT_LOOPS = """
    float mean = 0, var = 0;
    for (long c = 0; c < C; c++) mean += p[c];
    mean /= C;
    for (long c = 0; c < C; c++) var += (p[c] - mean) * (p[c] - mean);
    const float k = 1 / sqrtf(var / C + 1e-5f);
    for (long c = 0; c < C; c++) q[c] = (p[c] - mean) * k * w[c] + b[c];"""
MOMENTS = """
    double one = 0, two = 0;
    for (long c = 0; c < C; c++) { one += p[c]; two += (double)p[c] * p[c]; }
    const double mean = one / C, k = 1 / sqrt(two / C - mean * mean + 1e-5);
    for (long c = 0; c < C; c++) q[c] = (float)((p[c] - mean) * k * w[c] + b[c]);"""
MASK = "  const uint8_t* m = (const uint8_t*)in[1].data;\n"
SCAN = """
    double run = 0;
    for (long c = 0; c < C; c++) { run += m[r * C + c] ? p[c] : 0.0f; q[c] = (float)run; }"""
BLOCKED = """
    double run = 0;
    for (long c = 0; c < C; c += 32) {
      float inner = 0; const long end = c + 32 < C ? c + 32 : C;
      for (long d = c; d < end; d++) { inner += m[r * C + d] * p[d]; q[d] = (float)(run + inner); }
      run += inner;
    }"""
FLOAT_SCAN = SCAN.replace("double run", "float run")
SELECTED = """
    float run = 0;
    for (long c = 0; c < C; c++) { if (m[r * C + c]) run += p[c]; q[c] = run; }"""
TWO_PASS = """
    double run = 0;
    for (long c = 0; c < C; c++) q[c] = p[c] * m[r * C + c];
    for (long c = 0; c < C; c++) { run += q[c]; q[c] = (float)run; }"""

ARG = """
  const float* x = (const float*)in[0].data;
  int64_t* y = (int64_t*)out[0].data;
  const long B = in[0].sizes[0], M = in[0].sizes[1], C = in[0].sizes[2];
"""


def argmax(body: str, loop: str = PARALLEL) -> str:
    """One column of one batch at a time: `p[m * C]`."""
    start = "  for (long i = 0; i < B * C; i++) { const float* p = x + i / C * M * C + i % C;\n"
    return HEAD + ARG + loop + start + body + "\n  }\n}\n"


FIRST = """
    long best = 0;
    for (long m = 1; m < M; m++) if (p[m * C] > p[best * C]) best = m;
    y[i] = best;"""
FROM_THE_END = """
    long best = M - 1;
    for (long m = M - 2; m >= 0; m--) if (p[m * C] >= p[best * C]) best = m;
    y[i] = best;"""
HALVES = """
    long low = 0, high = M / 2;
    for (long m = 1; m < M / 2; m++) if (p[m * C] > p[low * C]) low = m;
    for (long m = M / 2 + 1; m < M; m++) if (p[m * C] > p[high * C]) high = m;
    y[i] = M > 1 && p[high * C] > p[low * C] ? high : low;"""
SWEEP = (
    HEAD
    + ARG
    + PARALLEL
    + """
  for (long b = 0; b < B; b++) {
    const float* p = x + b * M * C; int64_t* q = y + b * C;
    float* best = (float*)malloc(4 * C);
    for (long c = 0; c < C; c++) { best[c] = p[c]; q[c] = 0; }
    for (long m = 1; m < M; m++)
      for (long c = 0; c < C; c++) {
        const float v = p[m * C + c];
        q[c] = v > best[c] ? m : q[c]; best[c] = v > best[c] ? v : best[c];
      }
    free(best);
  }
}
"""
)

LINEAR = """
  const float *x = (const float*)in[0].data, *w = (const float*)in[1].data;
  const float* b = (const float*)in[2].data;
  float* y = (float*)out[0].data;
  const long N = in[0].sizes[0], K = in[0].sizes[1], H = in[1].sizes[0];
  double* col = (double*)calloc(K, sizeof(double)), bias = 0;
"""


def linear(columns: str, rows_: str) -> str:
    """Column sums of the weight, then one dot product per row."""
    return HEAD + LINEAR + columns + rows_ + "\n  free(col);\n}\n"


COLUMNS = """
  for (long h = 0; h < H; h++) {
    bias += b[h]; for (long k = 0; k < K; k++) col[k] += w[h * K + k];
  }
"""
DOTS = """
  for (long n = 0; n < N; n++) {
    double s = bias; for (long k = 0; k < K; k++) s += x[n * K + k] * col[k]; y[n] = (float)s;
  }"""
UP = """
  for (long h = H - 1; h >= 0; h--) {
    bias += b[h]; for (long k = 0; k < K; k++) col[k] += w[h * K + k];
  }
"""
PLAIN = (
    PARALLEL
    + """
  for (long n = 0; n < N; n++) {
    float s = 0;
    for (long h = 0; h < H; h++) {
      float d = b[h]; for (long k = 0; k < K; k++) d += x[n * K + k] * w[h * K + k]; s += d;
    }
    y[n] = s;
  }"""
)
THREADED = PARALLEL + "  for (long n = 0; n < N; n++) {" + DOTS.split("{", 1)[1]

ATTENTION = """
  const float *q = (const float*)in[0].data, *k = (const float*)in[1].data;
  const float* v = (const float*)in[2].data;
  float* y = (float*)out[0].data;
  const long H = in[0].sizes[0] * in[0].sizes[1], L = in[0].sizes[2], D = in[0].sizes[3];
"""


def attention(body: str) -> str:
    """One query at a time, in double or float; `s` holds the scores."""
    return (
        HEAD
        + ATTENTION
        + PARALLEL
        + "  for (long t = 0; t < H * L; t++) {\n"
        + "    const long h = t / L, i = t % L; float* s = (float*)malloc(4 * L);\n"
        + "    const float *kk = k + h * L * D, *vv = v + h * L * D, *qq = q + t * D;\n"
        + "    double* acc = (double*)calloc(D, 8); float* o = y + t * D;\n"
        + body
        + "\n    free(s); free(acc);\n  }\n}\n"
    )


CAUSAL = """
    float top = -INFINITY; double sum = 0;
    for (long j = 0; j <= i; j++) {
      double dot = 0; for (long d = 0; d < D; d++) dot += (double)qq[d] * kk[j * D + d];
      s[j] = (float)(dot / sqrt((double)D)); top = s[j] > top ? s[j] : top;
    }
    for (long j = 0; j <= i; j++) {
      const double e = exp((double)s[j] - top); sum += e;
      for (long d = 0; d < D; d++) acc[d] += e * vv[j * D + d];
    }
    for (long d = 0; d < D; d++) o[d] = (float)(acc[d] / sum);"""
STREAMED = """
    float top = -INFINITY; double sum = 0;
    for (long j = 0; j <= i; j++) {
      double dot = 0; for (long d = 0; d < D; d++) dot += (double)qq[d] * kk[j * D + d];
      const float score = (float)(dot / sqrt((double)D));
      if (score > top) {
        const double k_ = exp((double)top - score); top = score; sum *= k_;
        for (long d = 0; d < D; d++) acc[d] *= k_;
      }
      const double e = exp((double)score - top); sum += e;
      for (long d = 0; d < D; d++) acc[d] += e * vv[j * D + d];
    }
    for (long d = 0; d < D; d++) o[d] = (float)(acc[d] / sum);"""
IN_FLOAT = """
    float top = -INFINITY, sum = 0;
    for (long j = 0; j <= i; j++) {
      float dot = 0; for (long d = 0; d < D; d++) dot += qq[d] * kk[j * D + d];
      s[j] = dot / sqrtf((float)D); top = s[j] > top ? s[j] : top;
    }
    for (long d = 0; d < D; d++) o[d] = 0;
    for (long j = 0; j <= i; j++) {
      const float e = expf(s[j] - top); sum += e;
      for (long d = 0; d < D; d++) o[d] += e * vv[j * D + d];
    }
    for (long d = 0; d < D; d++) o[d] /= sum;"""

HONEST: dict[str, dict[str, str]] = {
    "softmax": {
        "two passes, double sum": rows(SOFTMAX),
        "online": rows(ONLINE),
        "eight partial sums": rows(LANES),
        "backward": rows(BACKWARD),
        "one thread": rows(SOFTMAX, loop=""),
        "one float sum": rows(FLOAT_SUM),
    },
    "layernorm": {
        "two passes": rows(LAYERNORM, NORM),
        "Welford": rows(WELFORD, NORM),
        "pairwise in float": rows(PAIRWISE, NORM),
        "plain float loops": rows(FLOAT_LOOPS, NORM),
        "two moments in double": rows(MOMENTS, NORM),
    },
    "masked_cumsum": {
        "one pass": rows(SCAN, MASK),
        "blocked": rows(BLOCKED, MASK),
        "masked first": rows(TWO_PASS, MASK),
        "float carry": rows(FLOAT_SCAN, MASK),
        "selected": rows(SELECTED, MASK),
    },
    "argmax": {
        "first": argmax(FIRST),
        "from the end": argmax(FROM_THE_END),
        "two halves": argmax(HALVES),
        "one thread": argmax(FIRST, loop=""),
        "sweep": SWEEP,
    },
    "matmul_sum": {
        "column sums": linear(COLUMNS, DOTS),
        "column sums upwards": linear(UP, DOTS),
        "threads over rows": linear(COLUMNS, THREADED),
        "plain float loops": HEAD
        + LINEAR.replace("double* col", "// double* col")
        + PLAIN
        + "\n}\n",
        "float column sums": linear(
            COLUMNS.replace("col[k] +=", "col[k] = (float)col[k] +"),
            DOTS.replace("double s = bias", "float s = (float)bias").replace(
                "* col", "* (float)col"
            ),
        ),
    },
    "causal_attention": {
        "rows": attention(CAUSAL),
        "streamed": attention(STREAMED),
        "all in float": attention(IN_FLOAT),
    },
}

BUGS: dict[str, dict[str, str]] = {
    "softmax": {
        "no maximum": rows(SOFTMAX.replace("p[c] - top", "p[c]")),
        "sum without the last": rows(SOFTMAX.replace("c < C; c++) sum", "c + 1 < C; c++) sum")),
        "one sum for all rows": rows(SOFTMAX, loop="").replace(
            "double sum = 0", "static double sum = 0"),
        "bfloat16 exponentials": rows(
            SOFTMAX.replace("expf(p[c] - top)", "cut(expf(p[c] - top))")
        ).replace('extern "C"', "static float cut(float f) { uint32_t u; memcpy(&u, &f, 4); "
                  'u &= 0xffff0000; memcpy(&f, &u, 4); return f; }\nextern "C"', 1),
        "last row left out": rows(SOFTMAX).replace("r < R", "r < R - 1"),
        "maximum of half": rows(SOFTMAX.replace("c < C; c++) top", "c < C / 2; c++) top")),
        "a tenth of the sum": rows(SOFTMAX.replace("c < C; c++) sum += q[c] =",
                                   "c < C; c++) sum += (c % 10 ? 0 : 10) * (q[c] =").replace(
                                       "expf(p[c] - top);", "expf(p[c] - top));", 1)),
    },
    "layernorm": {
        "variance over n - 1": rows(LAYERNORM.replace("var / C", "var / (C - 1)"), NORM),
        "epsilon of 1e-3": rows(LAYERNORM.replace("1e-5", "1e-3"), NORM),
        "no bias": rows(LAYERNORM.replace(" + b[c]", ""), NORM),
        "no weight": rows(LAYERNORM.replace(" * w[c]", ""), NORM),
        "difference of squares": rows(
            LAYERNORM.replace("(p[c] - mean) * (p[c] - mean)", "p[c] * p[c]")
            .replace("double mean = 0, var = 0", "float mean = 0, var = 0")
            .replace("var / C", "var / C - mean * mean"), NORM),
        "mean of another row": rows(LAYERNORM.replace("mean += p[c]", "mean += x[c]"), NORM),
    },
    "masked_cumsum": {
        "ignores the mask": rows(SCAN.replace("m[r * C + c] ? p[c] : 0.0f", "p[c]"), MASK),
        "exclusive": rows(SCAN.replace("run += m[r * C + c] ? p[c] : 0.0f; q[c] = (float)run;",
                                       "q[c] = (float)run; run += m[r * C + c] * p[c];"), MASK),
        "carries into the next row": rows(SCAN, MASK, loop="").replace(
            "double run = 0", "static double run = 0"),
        "mask of the row before": rows(SCAN.replace("m[r * C", "m[(r ? r - 1 : 0) * C"), MASK),
        "loses the carry": rows(BLOCKED.replace("run += inner;", "run = inner;"), MASK),
    },
    "argmax": {
        "last of ties": argmax(FIRST.replace("m * C] > p", "m * C] >= p")),
        "argmin": argmax(FIRST.replace("m * C] > p", "m * C] < p")),
        "never the last": argmax(FIRST.replace("m < M", "m + 1 < M")),
        "by magnitude": argmax(FIRST.replace("p[m * C] > p[best * C]",
                                             "fabsf(p[m * C]) > fabsf(p[best * C])")),
        "always zero": argmax("    y[i] = 0;"),
    },
    "matmul_sum": {
        "no bias": linear(COLUMNS.replace("bias += b[h];", ""), DOTS),
        "mean": linear(COLUMNS, DOTS.replace("(float)s", "(float)(s / H)")),
        "one feature fewer": linear(COLUMNS.replace("h < H", "h + 1 < H"), DOTS),
        "remembers the sums": linear(COLUMNS, DOTS).replace(
            "double* col = (double*)calloc(K, sizeof(double)), bias = 0;",
            "static double *col, bias; static long had; const int fresh = had != K;"
            "if (fresh) { had = K; bias = 0; col = (double*)calloc(K, 8); }"
        ).replace("for (long h = 0; h < H; h++)", "if (fresh) for (long h = 0; h < H; h++)", 1
        ).replace("free(col);", ""),
    },
    "causal_attention": {
        "no scale": attention(CAUSAL.replace("/ sqrt((double)D)", "")),
        "not itself": attention(CAUSAL.replace("j <= i", "j < (i ? i : 1)")),
        "looks one ahead": attention(CAUSAL.replace("j <= i", "j <= (i + 1 < L ? i + 1 : i)")),
        "last head left out": attention(CAUSAL).replace("t < H * L", "t < (H - 1) * L"),
    },
}  # fmt: skip
