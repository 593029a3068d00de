"""Runs that end in a win, written on the spot, and what is exported of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import records
from kernelwright.core import Candidate, SourceFile
from kernelwright.runs import RunFolder, create_run
from kernelwright.tasks.catalog import find_task

TASK = """
import torch
from torch import nn
DOMAIN = {"rows": (1, 512), "cols": (1, 64)}
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cols))
    def forward(self, x, power):
        return torch.relu(x) * self.weight * power, x.amax(1)
def get_inputs(rows=256, cols=33):
    return [torch.randn(rows, cols), 2.0]
def get_init_inputs(cols=33):
    return [cols]
"""
KERNEL = """
#include "kernelwright.h"
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  const float *x = (const float*)in[0].data, *w = (const float*)in[1].data;
  float *y = (float*)out[0].data, *top = (float*)out[1].data;
  const long rows = in[0].sizes[0], cols = in[0].sizes[1];
#pragma omp parallel for
  for (long r = 0; r < rows; r++) {
    top[r] = x[r * cols];
    for (long c = 0; c < cols; c++) {
      const float v = x[r * cols + c];
      y[r * cols + c] = (v > 0 ? v : 0) * w[c] * 2;
      if (v > top[r]) top[r] = v;
    }
  }
}
"""


def won_run(
    folder_of: Path, text: str = KERNEL, kind="cpp", name="kernel.cpp", **named
) -> RunFolder:
    """A run in a folder that holds task.py; `target` and `inputs` name a class there."""
    target = named.get("target", str(folder_of / "task.py"))
    task = find_task(target, inputs=named.get("inputs", ()))
    folder = create_run(folder_of, records.run_record().model_copy(update={"task": task}))
    candidate = Candidate(kind=kind, sources=(SourceFile(name=name, text=text),))
    folder.save_candidate(candidate)
    folder.append(records.timed(1.2, 1.3, 1.4, tier="T2", name=candidate.id))
    return folder


def load(path: Path, name: str = "exported"):
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # torch.compile looks modules up by name
    spec.loader.exec_module(module)
    return module
