/* Sixteen floats at a time, in GCC's vector extensions: any width of hardware will do.
 *
 * Stated errors (against fp64, over the finite range, in ulp of the result): vexp, vlog, vlog1p 2;
 * verf, vexpm1, vtanh, vsigmoid 4. NaN goes through; vexp overflows to Inf and underflows through
 * the denormals to 0.
 * Polynomials: Cephes mathematical library (S. Moshier), expf and logf.
 */
#ifndef KERNELWRIGHT_VMATH_H
#define KERNELWRIGHT_VMATH_H
#include <stdint.h>
#include <string.h>
/* Not <immintrin.h>: reading it is half of the compiler's work on a kernel of this size. */

enum { LANES = 16 };
typedef float vf __attribute__((vector_size(64)));
typedef float vfu __attribute__((vector_size(64), aligned(4)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint8_t vb __attribute__((vector_size(16), aligned(1)));
typedef double vd __attribute__((vector_size(64)));
typedef float vh __attribute__((vector_size(32)));

static inline vf splat(float x) { return vf{} + x; }
static inline vi lanes() { return vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

template <bool FULL> static inline vf load(const float* p, int n) {
  if (FULL) return *(const vfu*)p;
  vf v = {};
  memcpy(&v, p, 4 * (size_t)n);
  return v;
}
template <bool FULL> static inline vf load(const uint8_t* p, int n) {
  vb v = {};
  memcpy(&v, p, FULL ? 16 : (size_t)n);
  return __builtin_convertvector(v, vf);
}
template <bool FULL, bool STREAM> static inline void store(float* p, vf v, int n) {
  if (!FULL) {
    memcpy(p, &v, 4 * (size_t)n);
    return;
  }
#if defined(__AVX512F__)
  if (STREAM && ((uintptr_t)p & 63) == 0) { /* past the caches: nobody reads it back here */
    __asm__ volatile("vmovntps %1, %0" : "=m"(*(vf*)p) : "v"(v));
    return;
  }
#endif
  *(vfu*)p = v;
}
static inline void fence() { /* streamed stores are seen by others before the kernel returns */
#if defined(__AVX512F__)
  __asm__ volatile("sfence" ::: "memory");
#endif
}
template <bool FULL> static inline vf only(vf v, int n, float rest) {
  return FULL ? v : (lanes() < n ? v : splat(rest));
}

static inline vf vmax(vf a, vf b) { return ((a > b) | (a != a)) ? a : b; }
static inline vf vmin(vf a, vf b) { return ((a < b) | (a != a)) ? a : b; }
static inline vf vabs(vf a) { return (vf)((vi)a & 0x7fffffff); }
static inline vf vround(vf a) { /* to nearest, for |a| < 2^22 */
  const vf magic = splat(12582912.0f);
  return (a + magic) - magic; /* strict IEEE: the compiler may not fold this pair away */
}
static inline vf vsqrt(vf a) {
  vf r;
#if defined(__AVX512F__)
  __asm__("vsqrtps %1, %0" : "=v"(r) : "v"(a));
#else
  for (int l = 0; l < LANES; l++) r[l] = __builtin_sqrtf(a[l]);
#endif
  return r;
}
static inline vf power_of_two(vi n) { return (vf)((n + 127) << 23); }

/* e^x = p * 2^n with p - 1 = `tail`, which keeps the digits that p loses near x = 0. */
static inline vf exp_parts(vf y, vi* n) {
  vf whole = vround(y * 1.44269504088896341f);
  *n = __builtin_convertvector(y != y ? vf{} : whole, vi);
  vf r = y - whole * 0.693359375f + whole * 2.12194440e-4f;
  vf p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * r * r + r;
}
static inline vf vexp(vf x) {
  const vf top = splat(88.7228394f), bottom = splat(-104.0f);
  vf y = x > top ? top : (x < bottom ? bottom : x);
  vi n;
  vf p = exp_parts(y, &n) + 1.0f;
  vi half = n >> 1; /* two factors reach the denormals, one would not */
  vf e = p * power_of_two(half) * power_of_two(n - half);
  return x > top ? splat(__builtin_inff()) : e;
}
static inline vf vexpm1(vf x) {
  vi n;
  vf tail = exp_parts(x > 1.0f ? vf{} : (x < -1.0f ? vf{} : x), &n);
  return n == 0 & (x <= 1.0f) & (x >= -1.0f) ? tail : vexp(x) - 1.0f;
}
static inline vf vlog(vf x) {
  vi denormal = x < 1.17549435e-38f;
  vf y = denormal ? x * 8388608.0f : x;
  vi bits = (vi)y;
  vi exponent = ((bits >> 23) & 0xff) - 126 - (denormal & 23);
  vf m = (vf)((bits & 0x007fffff) | 0x3f000000);
  vi low = m < 0.707106781f;
  vf e = __builtin_convertvector(exponent + low, vf);
  m = low ? m + m - 1.0f : m - 1.0f;
  vf z = m * m, p = splat(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z + e * -2.12194440e-4f - 0.5f * z;
  vf r = m + p + e * 0.693359375f;
  r = x == 0.0f ? splat(-__builtin_inff()) : r;
  r = x == __builtin_inff() ? x : r;
  return (x < 0.0f) | (x != x) ? splat(__builtin_nanf("")) : r;
}
static inline vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }
static inline vf vtanh(vf x) {
  vf a = vabs(x), z = x * x; /* near zero 1 - 2/(e+1) cancels: the odd series does not */
  vf series = x * (1.0f + z * (-0.333333333f + z * (0.133333333f + z * -0.0539682540f)));
  vf wide = 1.0f - 2.0f / (vexp(a + a) + 1.0f);
  vf r = a < 0.15f ? series : (x < 0.0f ? -wide : wide);
  return x != x ? x : r;
}

static inline vf vlog1p(vf x) { /* Kahan: the rounding of 1 + x divides out */
  vf u = 1.0f + x;
  vf r = vlog(u) * (x / (u - 1.0f));
  return u == 1.0f ? x : (u == __builtin_inff() ? u : r);
}
static inline vf vtanh_softplus(vf x) { /* (e^2x + 2e^x) / (e^2x + 2e^x + 2): no cancellation */
  vf e = vexp(vmin(x, splat(20.0f)));
  vf n = e * (e + 2.0f);
  return n / (n + 2.0f);
}
/* Two minimax fits of our own: erf(x)/x in x^2 up to 1, and -log(1 - erf(x)) in x up to 4. */
static inline vf verf(vf x) {
  vf a = vmin(vabs(x), splat(4.0f)), z = x * x;
  vf s = splat(7.853857823647559e-05f);
  s = s * z - 0.0008010193123482168f;
  s = s * z + 0.005188327748328447f;
  s = s * z - 0.026853812858462334f;
  s = s * z + 0.1128358542919159f;
  s = s * z - 0.3761262595653534f;
  s = (s * z + 1.1283791065216064f) * x;
  vf p = splat(-2.1207071654316678e-07f);
  p = p * a + 2.4754019250394776e-05f;
  p = p * a - 0.0004603564739227295f;
  p = p * a + 0.004270631354302168f;
  p = p * a - 0.02534891478717327f;
  p = p * a + 0.10860658437013626f;
  p = p * a + 0.6330657601356506f;
  p = p * a + 1.12964928150177f;
  p = p * a - 0.00020206443150527775f;
  vf w = 1.0f - vexp(-p);
  vf r = a < 1.0f ? s : (x < 0.0f ? -w : w);
  return x != x ? x : r;
}

static inline float reduce_add(vf v) {
  for (int w = 8; w; w >>= 1) v += __builtin_shuffle(v, lanes() ^ w);
  return v[0];
}
static inline float reduce_max(vf v) {
  for (int w = 8; w; w >>= 1) v = vmax(v, __builtin_shuffle(v, lanes() ^ w));
  return v[0];
}
static inline float reduce_min(vf v) {
  for (int w = 8; w; w >>= 1) v = vmin(v, __builtin_shuffle(v, lanes() ^ w));
  return v[0];
}

/* Inclusive prefix sums of 16 lanes; the carry between blocks is a double, as ATen's cumsum has. */
static inline vf scan_add(vf v, double* carry) {
  const vf zero = {};
  v += __builtin_shuffle(zero, v, vi{0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
  v += __builtin_shuffle(zero, v, vi{0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
  v += __builtin_shuffle(zero, v, vi{0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
  v += __builtin_shuffle(zero, v, vi{0, 0, 0, 0, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23});
  union { vf whole; vh part[2]; } u = {v};
  vd low = __builtin_convertvector(u.part[0], vd) + *carry;
  vd high = __builtin_convertvector(u.part[1], vd) + *carry;
  *carry = high[7];
  u.part[0] = __builtin_convertvector(low, vh);
  u.part[1] = __builtin_convertvector(high, vh);
  return u.whole;
}
#endif
