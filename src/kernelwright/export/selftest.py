"""Tests one kernel on the machine it finds itself on: part of every exported file."""

import copy
import statistics
import time
import warnings

import torch
from torch.utils._pytree import tree_flatten

from kernelwright.export.runtime import KernelNotUsed


def self_test(kernel, reference, mine, inputs, pairs=20):
    """Compares with the reference in fp64, then times both in turns. Exit status: 0 if right."""
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", KernelNotUsed)
        theirs = tree_flatten(reference(*inputs))[0]
        mine(*inputs)
        got = tree_flatten(mine(*inputs))[0]
        if not kernel.calls:
            print(f"FAILED: {told[-1].message if told else 'the kernel did not run'}")
            return 1
        exact = [v.double() if _is_float(v) else v for v in inputs]
        truth = tree_flatten(copy.deepcopy(reference).double()(*exact))[0]
        for at, (a, b, t) in enumerate(zip(got, theirs, truth, strict=True)):
            error, own = ((x.double() - t.double()).abs().max().item() for x in (a, b))
            allowed = 8 * own + 1e-5 * t.double().abs().max().item() if _is_float(a) else 0
            if not error <= allowed or a.shape != b.shape:
                print(f"FAILED: output {at} is off by {error:.3g}, the reference by {own:.3g}")
                return 1
            print(f"output {at}: error {error:.3g}; the reference's own {own:.3g}")
        times = [[_seconds(m, inputs) for m in (reference, mine)] for _ in range(pairs)]
        ratio = statistics.median(a / b for a, b in times)
        print(f"right; {ratio:.2f}x over the reference in eager mode here ({pairs} pairs)")
    return 0


def _is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _seconds(module, inputs):
    started = time.perf_counter()
    module(*inputs)
    return time.perf_counter() - started
