"""An honest kernel whose error sits in one sum of nearly equal terms."""

import ctypes

import pytest
import torch

from kernelwright.backends import CppBackend
from kernelwright.exploits.controls import controls_for
from kernelwright.exploits.entry import TASKS
from kernelwright.exploits.subject import make_subject
from kernelwright.judge.verify.compare import compare
from kernelwright.judge.verify.oracle import Oracle
from kernelwright.sandbox.c_abi import call_kernel
from kernelwright.tasks.bind import bind
from kernelwright.tasks.catalog import find_task, reference_spec
from kernelwright.tasks.draw import COHERENT, Drawer
from kernelwright.tasks.reference import load_reference
from kernelwright.tasks.slots import read_signature


def test_roundings_of_nearly_equal_terms_may_all_go_one_way(tmp_path):
    """Far from zero the products of a score are alike; one row of nine carries all the error."""
    task = find_task(str(TASKS / "causal_attention.py"))
    style = "backwards; query scaled first, blocks of 128"
    kernel = next(c for c in controls_for(make_subject(task)) if c.style == style).candidate
    reference = load_reference(reference_spec(task))
    shape = {"heads": 3, "length": 3, "width": 255}
    signature = read_signature(reference, shape)
    family = "shifted_down"
    values = Drawer(reference, shape, signature, key=11).draw(family, counter=252, weights=252)
    oracle = Oracle(reference, shape, signature)
    truth = oracle(values)
    model = reference.build(shape, seed=42)
    with torch.no_grad():
        own = bind(model, reference, shape, signature=signature, tensors=values)()
    built = CppBackend().build(kernel, tmp_path)
    output = torch.empty(truth[0].shape)
    call_kernel(ctypes.CDLL(str(built.library)).kernel, values, [output])

    def judged(*, coherent):
        sizes = lambda: oracle.sensitivity(values, truth, coherent=coherent)  # noqa: E731
        return compare([output], truth, own, precision="native", sensitivity=sizes).ok

    if judged(coherent=False):
        pytest.skip("this machine's vectors round otherwise")
    assert judged(coherent=family in COHERENT)
