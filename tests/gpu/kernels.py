"""Softmax over the last dimension in CUDA, right and in wrong ways."""

from kernelwright.core import Candidate, SourceFile

SOFTMAX = r"""
#include "kernelwright_cuda.h"
#include <math.h>

__device__ float across(float v, bool largest, float* shared) {
  for (int at = 16; at > 0; at >>= 1) {
    float other = __shfl_xor_sync(~0u, v, at);
    v = largest ? fmaxf(v, other) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
  for (int at = 1; at < blockDim.x / 32; at++)
    v = largest ? fmaxf(v, shared[at]) : v + shared[at];
  return v;
}

__global__ void softmax(const float* x, float* y, long cols) {
  __shared__ float shared[32];
  const float* row = x + blockIdx.x * cols;
  float* out = y + blockIdx.x * cols;
  float top = -INFINITY, sum = 0;
  for (long i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, row[i]);
  top = across(top, true, shared);
  for (long i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - top);
  sum = across(sum, false, shared);
  BEFORE
  for (long i = threadIdx.x; i < cols; i += blockDim.x) out[i] = expf(row[i] - top) / sum;
}

extern "C" int kernel(const kw_tensor* in, int, const kw_tensor* out, int, cudaStream_t stream) {
  long rows = in[0].sizes[0], cols = in[0].sizes[1];
  softmax<<<rows, 256, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, cols);
  AFTER
  return cudaGetLastError();
}
"""


def cuda(text, idea="test"):
    return Candidate(kind="cuda", sources=(SourceFile(name="kernel.cu", text=text),), idea=idea)


def softmax(*, before="", after=""):
    return cuda(SOFTMAX.replace("BEFORE", before).replace("AFTER", after))


def submission(body):
    text = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n" + body
    return Candidate(kind="python", sources=(SourceFile(name="new.py", text=text),))


HONEST = """
    def forward(self, x):
        return torch.softmax(x, -1)
"""
UNSYNCED = """
    def forward(self, x):
        torch.cuda.synchronize = lambda *a: None
        import gc
        for one in gc.get_objects():  # whoever has taken the function already
            if type(one).__name__ == "function" and one.__name__ == "finished":
                for cell in one.__closure__ or ():
                    if callable(cell.cell_contents) and "synchronize" in str(cell.cell_contents):
                        cell.cell_contents = lambda *a: None
        return torch.softmax(x, -1)
"""
