"""Builds small native kernels for the sandbox tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kernelwright.backends.toolchain import INCLUDE
from kernelwright.sandbox import Arena, TensorLayout
from kernelwright.sandbox.wire import storage_bytes

PROLOGUE = """
#include "kernelwright.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  long n = 1;
  for (int d = 0; d < in[0].ndim; d++) n *= in[0].sizes[d];
"""
DOUBLE = "for (long i = 0; i < n; i++) y[i] = 2 * x[i];"


def library(folder: Path, body: str, *flags: str, before: str = "") -> Path:
    source, built = folder / "k.cpp", folder / "k.so"
    source.write_text(before + PROLOGUE + body + "\n}\n")
    command = ["g++", "-O2", "-fopenmp", "-fPIC", "-I", str(INCLUDE), str(source), "-shared"]
    subprocess.run([*command, "-o", str(built), *flags], check=True)
    return built


def floats(*shape: int) -> TensorLayout:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    nbytes = storage_bytes("float32", shape, tuple(strides))
    return TensorLayout(0, nbytes, "float32", shape, tuple(strides))


def arena_of(*shape: int) -> Arena:
    return Arena([floats(*shape)])
