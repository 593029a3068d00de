"""Plain loops in the working precision are honest; rounded operands are not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge.verify.budget import BUDGETS
from kernelwright.judge.verify.terms import LongestSum, growth, repeats

U = 2.0**-24
SEEDS, LENGTHS = st.integers(0, 2**32), st.integers(16, 20_000)
X = torch.randn(4, 6, 32, 32)


class _Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.longest = LongestSum()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        names = [argument.name for argument in func._schema.arguments]
        self.longest.see(func, dict(zip(names, args, strict=False)) | (kwargs or {}), result)
        return result


@pytest.mark.parametrize(
    ("run", "terms"),
    [
        (lambda: X.exp() + X * 2, 1),
        (lambda: X.transpose(1, 3)[..., :2].reshape(-1), 1),
        (lambda: X.sum(-1), 32),
        (lambda: X.mean((2, 3)), 1024),
        (X.sum, X.numel()),
        (lambda: torch.cumsum(X, 1), 6),
        (lambda: torch.softmax(X, -1), 32),
        (lambda: F.layer_norm(X, (32, 32)), 1024),
        (lambda: F.group_norm(X, 3), 2048),
        (lambda: torch.randn(5, 70) @ torch.randn(70, 9), 70),
        (lambda: F.linear(torch.randn(5, 70), torch.randn(9, 70), torch.randn(9)), 70),
    ],
)
def test_the_longest_sum_is_read_off_the_sizes(run, terms):
    with torch.no_grad(), _Watch() as watch:
        run()
    assert watch.longest.terms == terms


def test_a_convolution_counts_about_its_window():
    with torch.no_grad(), _Watch() as watch:
        F.conv2d(X, torch.randn(8, 6, 3, 3))
    assert 6 * 3 <= watch.longest.terms <= 6 * 9


def one_by_one(x):
    """Sums of the rows as a plain float32 loop adds them up."""
    return np.add.reduce(np.ascontiguousarray(x.T), axis=0, dtype=np.float32)


def share(x, got, *, coherent):
    """RMS error as a share of its budget."""
    exact = x.astype(np.float64).sum(1)
    scale = np.abs(x.astype(np.float64)).sum(1)
    allowed = BUDGETS.condition_rms * U * growth(x.shape[1], coherent=coherent)
    return float(np.sqrt(((got - exact) ** 2).mean()) / (allowed * np.sqrt((scale**2).mean())))


@settings(max_examples=30, deadline=None)
@given(SEEDS, LENGTHS, st.sampled_from(["uniform", "exp", "square"]))
def test_a_plain_loop_over_random_terms_is_within_the_budget(seed, n, kind):
    x = np.random.default_rng(seed).standard_normal((16, n), dtype=np.float32)
    x = {"uniform": np.abs(x) % 1, "exp": np.exp(x), "square": x * x}[kind]
    assert share(x, one_by_one(x), coherent=False) < 1


@settings(max_examples=30, deadline=None)
@given(SEEDS, LENGTHS, st.integers(1, 5))
def test_a_plain_loop_over_few_values_is_within_the_coherent_budget(seed, n, distinct):
    rng = np.random.default_rng(seed)
    x = rng.random(distinct, dtype=np.float32)[rng.integers(0, distinct, (16, n))]
    assert share(x, one_by_one(x), coherent=True) < 1


@pytest.mark.parametrize("n", [64, 1024, 8192])
def test_operands_rounded_to_bfloat16_are_not(n):
    x = np.random.default_rng(1).random((64, n), dtype=np.float32)
    rounded = torch.from_numpy(x).bfloat16().double().sum(1).numpy()
    assert share(x, rounded, coherent=False) > 2


def test_few_distinct_inputs_are_noticed():
    assert repeats([torch.randint(0, 5, (100, 100)).float()])
    assert not repeats([torch.randn(100, 100), torch.zeros(3)])
