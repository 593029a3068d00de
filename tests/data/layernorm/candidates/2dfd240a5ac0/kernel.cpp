#include "kernelwright.h"
#include "vmath.h"
#include <stdlib.h>
#include <type_traits>

using yes = std::true_type;
using no = std::false_type;

extern "C" void kernel(const kw_tensor* inputs, int, const kw_tensor* outputs, int) {
  const kw_tensor& like = inputs[0];
  long rows = 1, columns = 1;
  for (int d = 0; d < like.ndim; d++) (d < like.ndim - 1 ? rows : columns) *= like.sizes[d];
  const float* s0 = (const float*)inputs[0].data;
  const float* s1 = (const float*)inputs[1].data;
  const float* s2 = (const float*)inputs[2].data;
  float* const out = (float*)outputs[0].data;
  const long padded = (columns + 31) / 16 * 16;
#pragma omp parallel if (rows > 1 && rows * columns > 32768)
  {
  float* const scratch = (float*)aligned_alloc(64, sizeof(float) * padded * 1);
#pragma omp for schedule(static)
  for (long row = 0; row < rows; row++) {
    float* const y = out + row * columns;
    const float* x0 = s0 + row * columns;
    vf r0[2];
    for (int u = 0; u < 2; u++) r0[u] = splat(0.0f);
    {
      const auto block = [&](auto full, long c, int n, int u) {
        constexpr bool FULL = decltype(full)::value;
        (void)n; (void)u;
        const vf t0 = load<FULL>(x0 + c, n);
        r0[u] = r0[u] + only<FULL>(t0, n, 0.0f);
      };
      long c = 0;
      for (; c + 32 <= columns; c += 32)
        _Pragma("GCC unroll 8") for (int u = 0; u < 2; u++) {
          block(yes(), c + 16 * u, 16, u);
        }
      for (; c + 16 <= columns; c += 16) block(yes(), c, 16, 0);
      if (c < columns) block(no(), c, (int)(columns - c), 0);
    }
    const float r0_all = reduce_add(r0[0] + r0[1]);
    const float k0 = ((splat(r0_all) * splat((1.0f / (float)columns))))[0];
    vf r1[2];
    for (int u = 0; u < 2; u++) r1[u] = splat(0.0f);
    {
      const auto block = [&](auto full, long c, int n, int u) {
        constexpr bool FULL = decltype(full)::value;
        (void)n; (void)u;
        const vf t0 = load<FULL>(x0 + c, n);
        const vf t1 = (t0 - splat(k0));
        const vf t2 = (t1 * t1);
        r1[u] = r1[u] + only<FULL>(t2, n, 0.0f);
      };
      long c = 0;
      for (; c + 32 <= columns; c += 32)
        _Pragma("GCC unroll 8") for (int u = 0; u < 2; u++) {
          block(yes(), c + 16 * u, 16, u);
        }
      for (; c + 16 <= columns; c += 16) block(yes(), c, 16, 0);
      if (c < columns) block(no(), c, (int)(columns - c), 0);
    }
    const float r1_all = reduce_add(r1[0] + r1[1]);
    const float k1 = ((splat(r1_all) * splat((1.0f / (float)columns)) + splat((1e-05f))))[0];
    const float k2 = ((1.0f / vsqrt(splat(k1))))[0];
    {
      const auto block = [&](auto full, long c, int n, int u) {
        constexpr bool FULL = decltype(full)::value;
        (void)n; (void)u;
        const vf t0 = load<FULL>(x0 + c, n);
        const vf t1 = (t0 - splat(k0));
        const vf t2 = (t1 * splat(k2));
        const vf t3 = load<FULL>(s1 + c, n);
        const vf t4 = (t2 * t3);
        const vf t5 = load<FULL>(s2 + c, n);
        const vf t6 = (t4 + t5);
        store<FULL, true>(y + c, t6, n);
      };
      long c = 0;
      for (; c + 32 <= columns; c += 32)
        _Pragma("GCC unroll 8") for (int u = 0; u < 2; u++) {
          block(yes(), c + 16 * u, 16, u);
        }
      for (; c + 16 <= columns; c += 16) block(yes(), c, 16, 0);
      if (c < columns) block(no(), c, (int)(columns - c), 0);
    }
  }
  free(scratch);
  fence();
  }
}
