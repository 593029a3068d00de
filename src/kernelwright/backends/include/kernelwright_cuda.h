/* The C ABI of a CUDA Candidate.
 *
 * A Candidate defines, with C linkage, one host function (named by its manifest, `kernel` by
 * default) that launches its kernels on the stream it is given and returns:
 *
 *   int kernel(const kw_tensor* inputs, int n_inputs, const kw_tensor* outputs, int n_outputs,
 *              cudaStream_t stream);
 *
 * The answer is 0 (cudaSuccess) or the error of a launch. All `data` are device pointers. Inputs
 * are the Task's slots in order: the arguments of forward, then parameters, then buffers; they are
 * compared with the judge's own copy after the call, so a write is found. Outputs are freshly
 * allocated, uninitialised, 512-byte aligned, and have the sizes and strides that the reference
 * returns. Scratch memory comes from cudaMallocAsync on the same stream.
 */
#ifndef KERNELWRIGHT_CUDA_H
#define KERNELWRIGHT_CUDA_H
#include <cuda_runtime.h>

#include "kernelwright.h"

#endif
