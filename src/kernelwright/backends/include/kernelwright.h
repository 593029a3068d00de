/* The C ABI of a native Candidate.
 *
 * A Candidate defines, with C linkage, one function (named by its manifest, `kernel` by default):
 *
 *   void kernel(const kw_tensor* inputs, int n_inputs, const kw_tensor* outputs, int n_outputs);
 *
 * `inputs` are the Task's slots in order: the arguments of forward, then parameters, then buffers.
 * They are read-only pages: a write is a segmentation fault. `outputs` are freshly allocated,
 * uninitialised, 64-byte aligned, and have the sizes and strides that the reference returns.
 * Nothing else survives from call to call that the Task allows to matter. OpenMP is available.
 */
#ifndef KERNELWRIGHT_H
#define KERNELWRIGHT_H
#include <stdint.h>

#define KW_MAX_DIMS 8

enum kw_dtype {
  KW_FLOAT32 = 0, KW_FLOAT64 = 1, KW_FLOAT16 = 2, KW_BFLOAT16 = 3, KW_INT64 = 4,
  KW_INT32 = 5, KW_INT16 = 6, KW_INT8 = 7, KW_UINT8 = 8, KW_BOOL = 9,
};

typedef struct {
  void* data;
  int32_t dtype; /* enum kw_dtype */
  int32_t ndim;
  int64_t sizes[KW_MAX_DIMS];
  int64_t strides[KW_MAX_DIMS]; /* in elements, not bytes */
} kw_tensor;

#endif
