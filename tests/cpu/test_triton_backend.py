"""Triton Candidates compile for a device that is not here, and their logic runs interpreted."""

import importlib.util
import os
import subprocess
import sys

import pytest

from kernelwright.backends import BuildFailure, PythonArtefact
from kernelwright.backends.triton import TritonBackend, inspect_triton
from kernelwright.core import Candidate, SourceFile
from kernelwright.sandbox import TensorLayout

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs triton", allow_module_level=True)

SOFTMAX = """
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * cols + at, v / tl.sum(v, 0), mask=at < cols)


def kernel(inputs, outputs):
    x, y = inputs[0], outputs[0]
    softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
"""
PRODUCT = """
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    col = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    at = tl.arange(0, K)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row * k + (start + at)[None, :])
        right = tl.load(b + (start + at)[:, None] * n + col)
        sums = tl.dot(left, right, sums)
    tl.store(c + row * n + col, sums)


def kernel(inputs, outputs):
    a, b = inputs
    grid = (a.shape[0] // 128, b.shape[1] // 128)
    product[grid](a, b, outputs[0], b.shape[1], a.shape[1], M=128, N=128, K=64, num_warps=8)
"""
INTERPRETED = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import candidate
x = torch.randn(3, 37)
y = torch.full_like(x, float("nan"))
candidate.kernel([x], [y])
torch.testing.assert_close(y, torch.softmax(x, -1))
"""


@pytest.fixture(autouse=True)
def hopper(monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CUDA_ARCH", "sm_90a")


def triton(text, name="kernel.py"):
    return Candidate(kind="triton", sources=(SourceFile(name=name, text=text),))


def matrix(dtype, rows, cols):
    return TensorLayout(0, 0, dtype, (rows, cols), (cols, 1))


def inspect(text, cache, *, n_inputs=1, dtype="float32", shape=(1024, 1024)):
    inputs = [matrix(dtype, *shape)] * n_inputs
    return inspect_triton(triton(text), cache, inputs=inputs, outputs=[matrix("float32", *shape)])


def test_every_launch_is_compiled_and_reported(tmp_path):
    (facts,) = inspect(SOFTMAX, tmp_path, shape=(4096, 1000))
    assert facts.name == "softmax"
    assert 8 <= facts.registers <= 128
    assert (facts.spill_bytes, facts.wgmma) == (0, 0)
    (facts,) = inspect(PRODUCT, tmp_path, n_inputs=2, dtype="bfloat16")
    assert facts.wgmma == 4
    assert facts.shared_bytes > 64 << 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def kernel(inputs, outputs): return undefined", "NameError"),
        (SOFTMAX.replace("tl.max(v, 0)", "tl.max(v, 3)"), "Error"),
        ("def kernel(inputs, outputs): open('/etc/kernelwright', 'w')", "Permission denied"),
        ("def other(): pass", "defines no function kernel"),
        ("def kernel(:", "invalid syntax"),
    ],
)
def test_a_failure_is_one_line(tmp_path, text, says):
    failure = inspect(text, tmp_path)
    assert isinstance(failure, BuildFailure)
    assert says in failure.reason
    assert "\n" not in failure.reason


def test_building_runs_nothing(tmp_path):
    built = TritonBackend().build(
        triton(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + SOFTMAX), tmp_path
    )
    assert isinstance(built, PythonArtefact)
    assert built.reads == (
        tmp_path / "triton" / next((tmp_path / "triton").iterdir()).name / "kernel.py",
    )
    assert not (tmp_path / "ran").exists()


def test_interpreted_on_a_small_shape_it_is_right(tmp_path):
    (tmp_path / "candidate.py").write_text(SOFTMAX)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", INTERPRETED, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
