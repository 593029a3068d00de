"""CUDA Candidates compile for an architecture that is not here; nothing of them runs."""

import shutil

import pytest

from kernelwright.backends import BuildFailure, PythonArtefact
from kernelwright.backends.cuda import CudaBackend
from kernelwright.backends.nvcc import read_facts
from kernelwright.core import Candidate, SourceFile
from kernelwright.core.errors import CompilerMissing

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="needs nvcc")
TWICE = """
#include "kernelwright_cuda.h"
__global__ void twice(const float* x, float* y, long n) {
  __shared__ float part[256];
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = part[threadIdx.x] + part[threadIdx.x ^ 0];
}
extern "C" int kernel(const kw_tensor* in, int, const kw_tensor* out, int, cudaStream_t stream) {
  long n = in[0].sizes[0];
  twice<<<n / 256 + 1, 256, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, n);
  return cudaGetLastError();
}
"""
WGMMA = """
#include <cstdint>
__global__ void tile(uint64_t a, uint64_t b, float* out) {
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %6, 0;"
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5,"
      "  p, 1, 1, 0, 0; }"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(a), "l"(b), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  out[threadIdx.x] = d0 + d1 + d2 + d3;
}
"""
SPILLS = """
__global__ void __launch_bounds__(1024, 2) spills(volatile float* x) {
  float kept[96];
#pragma unroll
  for (int i = 0; i < 96; i++) kept[i] = x[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 96; i++) x[i * 1024 + threadIdx.x] = kept[95 - i] * kept[(i * 7) % 96];
}
"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5firstPf' for 'sm_90a'
ptxas info    : Function properties for _Z5firstPf
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function '_Z6secondPf' for 'sm_90a'
ptxas info    : Function properties for _Z6secondPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""


@pytest.fixture(autouse=True)
def hopper(monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CUDA_ARCH", "sm_90a")


def build(text, cache, name="kernel.cu"):
    source = SourceFile(name=name, text=text)
    return CudaBackend().build(Candidate(kind="cuda", sources=(source,)), cache)


@needs_nvcc
def test_it_builds_a_library_and_tells_what_the_assembler_says(tmp_path):
    built = build(TWICE, tmp_path)
    assert isinstance(built, PythonArtefact), built
    (library,) = built.reads
    assert b"twice" in library.read_bytes()
    (facts,) = built.kernels
    assert "twice" in facts.name
    assert (facts.shared_bytes, facts.spill_bytes, facts.wgmma) == (1024, 0, 0)
    assert 8 <= facts.registers <= 64
    assert build(TWICE, tmp_path) == built


@needs_nvcc
def test_matrix_instructions_and_spills_are_counted(tmp_path):
    assert build(WGMMA, tmp_path).kernels[0].wgmma == 1
    assert build(SPILLS, tmp_path).kernels[0].spill_bytes > 0


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("__global__ void f() { int broken( }", "error"),
        ("#include <torch/extension.h>", "torch/extension.h"),
        ('asm(".incbin \\"/etc/hostname\\"");', "hostname"),
        ("", "no .cu file"),
    ],
)
def test_a_failure_is_one_line(tmp_path, text, says):
    failure = build(text, tmp_path, name="kernel.cu" if text else "notes.txt")
    assert isinstance(failure, BuildFailure)
    assert says in failure.reason
    assert "\n" not in failure.reason


def test_without_nvcc_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    monkeypatch.setattr("kernelwright.backends.nvcc._USUAL", str(tmp_path / "nvcc"))
    with pytest.raises(CompilerMissing, match="CUDA toolkit"):
        build(TWICE, tmp_path)


def test_the_assemblers_log_is_read_kernel_by_kernel():
    first, second = read_facts(LOG, "wgmma.mma_async.sync\nwgmma.mma_async.sync\n")
    assert (first.name, first.registers, first.shared_bytes) == ("_Z5firstPf", 40, 1024)
    assert (first.spill_bytes, first.wgmma) == (40, 2)
    assert (second.registers, second.shared_bytes, second.spill_bytes) == (12, 0, 0)
