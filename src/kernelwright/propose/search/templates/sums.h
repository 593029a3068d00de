/* Sums of a matrix over its rows or columns, and of a vector, before the rows of a program.
 *
 * The accumulators are doubles: the sums stand for whole products, so their error must stay small
 * beside the error of the products they replace. The caller frees the result.
 */
#ifndef KERNELWRIGHT_SUMS_H
#define KERNELWRIGHT_SUMS_H
#include "kernelwright.h"
#include "vmath.h"
#include <stdlib.h>

static inline float* zeroed(long n) {
  const size_t bytes = sizeof(float) * (size_t)((n + 31) / 16 * 16);
  float* p = (float*)aligned_alloc(64, bytes);
  memset(p, 0, bytes);
  return p;
}

/* Over the first dimension: whole rows are streamed, since a column's stride ends every prefetch. */
static inline float* rows_summed(const kw_tensor& t, bool mean) {
  const long rows = t.sizes[0], columns = t.ndim > 1 ? t.sizes[1] : 1;
  const float* x = (const float*)t.data;
  float* result = zeroed(columns);
  const float scale = mean ? (float)(1.0 / (double)rows) : 1.0f;
  double* total = (double*)calloc((size_t)columns, sizeof(double));
#pragma omp parallel if (rows > 1 && rows * columns > 32768)
  {
    double* mine = (double*)calloc((size_t)columns, sizeof(double));
#pragma omp for schedule(static)
    for (long row = 0; row < rows; row++) {
      const float* p = x + row * columns;
#pragma omp simd
      for (long c = 0; c < columns; c++) mine[c] += (double)p[c];
    }
#pragma omp critical
    for (long c = 0; c < columns; c++) total[c] += mine[c];
    free(mine);
  }
  for (long c = 0; c < columns; c++) result[c] = (float)total[c] * scale;
  free(total);
  return result;
}

/* Over the last dimension. */
static inline float* columns_summed(const kw_tensor& t, bool mean) {
  const long rows = t.sizes[0], columns = t.sizes[1];
  const float* x = (const float*)t.data;
  float* result = zeroed(rows);
  const float scale = mean ? (float)(1.0 / (double)columns) : 1.0f;
#pragma omp parallel for schedule(static) if (rows > 1 && rows * columns > 32768)
  for (long row = 0; row < rows; row++) {
    const float* p = x + row * columns;
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (long c = 0; c < columns; c++) total += (double)p[c];
    result[row] = (float)total * scale;
  }
  return result;
}
#endif
