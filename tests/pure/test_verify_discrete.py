"""Indices and flags: rounding excuses a near miss, nothing excuses more."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.judge.verify import Comparison, compare
from references import Setting, Values, builtin, load_source, module_source, setting

ARGMAX_OF_LINEAR = """
def __init__(self):
    super().__init__()
    self.linear = nn.Linear(64, 32)

def forward(self, x):
    return self.linear(x).argmax(1)
"""


def _judge(one: Setting, values: Values, got: Values, own: Values | None = None) -> Comparison:
    truth = one.oracle(values)
    return compare(
        got,
        truth,
        own or one.eager(values),
        precision="native",
        sensitivity=lambda: one.oracle.sensitivity(values, truth),
    )


def _setting(folder: Path, body: str, inputs: str = "[torch.randn(8, 64)]") -> Setting:
    return setting(load_source(folder, module_source(body, inputs)))


@pytest.fixture(scope="module")
def argmax() -> Setting:
    return builtin("argmax", batch=3, middle=11, cols=7)


def test_the_first_of_equals_is_demanded(argmax: Setting) -> None:
    values = argmax.drawer.draw("ties", counter=1, weights=0)
    x = values[0]
    assert _judge(argmax, values, [x.argmax(1)]).ok
    last = x.shape[1] - 1 - x.flip(1).argmax(1)
    found = _judge(argmax, values, [last])
    assert not found.ok
    assert "differs at" in found.reason


@pytest.mark.parametrize("wrong", [-1, 11, 2**40])
def test_an_index_out_of_range_is_refused(argmax: Setting, wrong: int) -> None:
    values = argmax.drawer.draw("nominal", counter=1, weights=0)
    got = values[0].argmax(1)
    got[0, 0] = wrong
    assert not _judge(argmax, values, [got]).ok


def test_the_runner_up_among_inputs_is_refused_however_near(argmax: Setting) -> None:
    (x,) = values = argmax.drawer.draw("nominal", counter=1, weights=0)
    x[0, 5, 0] = 9.0
    x[0, 2, 0] = torch.nextafter(torch.tensor(9.0), torch.tensor(0.0))
    got = x.argmax(1)
    assert int(got[0, 0]) == 5
    got[0, 0] = 2
    assert not _judge(argmax, values, [got]).ok


def _two_alike(one: Setting, gap: float) -> tuple[Values, torch.Tensor, torch.Tensor]:
    """Values whose largest are features 3 and 7, nearly equal; eager's answer; the other one."""
    values = one.drawer.draw("nominal", counter=1, weights=1)
    _, weight, bias = values
    weight[3] = weight[7]
    bias.fill_(0.0)
    bias[3] = bias[7] = 50.0
    bias[3] += gap
    own = one.eager(values)[0]
    swapped = torch.where(own == 3, 7, 3)
    return values, own, swapped


def test_a_near_tie_of_computed_values_may_go_either_way(tmp_path: Path) -> None:
    one = _setting(tmp_path, ARGMAX_OF_LINEAR)
    values, own, swapped = _two_alike(one, 4e-6)
    assert set(own.tolist()) <= {3, 7}
    found = _judge(one, values, [swapped], [one.oracle(values)[0]])
    assert found.ok, found.reason
    assert 0 < found.error_over_budget <= 1


def test_a_gap_beyond_rounding_may_not(tmp_path: Path) -> None:
    one = _setting(tmp_path, ARGMAX_OF_LINEAR)
    values, _, swapped = _two_alike(one, 0.05)
    assert not _judge(one, values, [swapped]).ok


def test_the_answer_of_eager_is_right_even_if_the_truth_differs(argmax: Setting) -> None:
    values = argmax.drawer.draw("nominal", counter=1, weights=0)
    other = values[0].argmin(1)
    assert _judge(argmax, values, [other.clone()], [other]).ok


TOPK = "def forward(self, x):\n    return torch.topk(x, 3, dim=1)[1]"
SORT = "def forward(self, x):\n    return torch.sort(x, dim=1)[1]"
STABLE = "def forward(self, x):\n    return torch.sort(x, dim=1, stable=True)[1]"
EXTREME = "def forward(self, x):\n    return x.min(0, keepdim=True)[1].view(-1)"
WHOLE = "def forward(self, x):\n    return x.argmin()"


@pytest.mark.parametrize("body", [TOPK, SORT], ids=["topk", "sort"])
def test_equals_may_be_ranked_in_any_order_but_none_twice(tmp_path: Path, body: str) -> None:
    one = _setting(tmp_path, body)
    values = one.drawer.draw("nominal", counter=1, weights=0)
    x = values[0]
    x[:, 10] = x[:, 20] = 7.0
    own = one.eager(values)[0]
    got = own.clone()
    got[own == 10], got[own == 20] = 20, 10
    assert not torch.equal(got, own)
    assert _judge(one, values, [got]).ok
    twice = own.clone()
    twice[own == 10] = 20
    assert not _judge(one, values, [twice]).ok


def test_a_stable_sort_keeps_equals_in_order(tmp_path: Path) -> None:
    one = _setting(tmp_path, STABLE)
    values = one.drawer.draw("nominal", counter=1, weights=0)
    values[0][:, 10] = values[0][:, 20] = 7.0
    own = one.eager(values)[0]
    got = own.clone()
    got[own == 10], got[own == 20] = 20, 10
    assert not _judge(one, values, [got]).ok


@pytest.mark.parametrize("body", [TOPK, SORT, STABLE, EXTREME, WHOLE])
def test_other_choosers_pass_as_they_are_and_fail_when_off(tmp_path: Path, body: str) -> None:
    one = _setting(tmp_path, body)
    for family in ("nominal", "ties", "small_integers"):
        values = one.drawer.draw(family, counter=1, weights=0)
        own = one.eager(values)[0]
        assert _judge(one, values, [own.clone()]).ok
        assert not _judge(one, values, [own.roll(1) if own.dim() else own + 1]).ok


def test_a_comparison_may_fall_either_way_only_within_rounding(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return x.sum(1) * 3 > 1.5"
    one = _setting(tmp_path, body, "[torch.randn(64, 64)]")
    (x,) = values = one.drawer.draw("nominal", counter=1, weights=0)
    x[0] -= (x[0].double().sum() - 0.5).float() / 64  # this row's sum is 0.5 up to rounding
    own = one.eager(values)[0]
    near = own.clone()
    near[0] = ~near[0]
    truth = one.oracle(values)[0]
    assert _judge(one, values, [near], [truth]).ok
    far = own.clone()
    far[1] = ~far[1]
    assert not _judge(one, values, [far]).ok


def test_a_derived_integer_is_excused_only_where_the_truth_is_unstable(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return (x.sum(1) * 100).floor().long()"
    one = _setting(tmp_path, body)
    (x,) = values = one.drawer.draw("nominal", counter=1, weights=0)
    x.zero_()
    x[:, 0], x[:, 1], x[:, 2] = 0.3, 0.7, torch.linspace(0.2, 0.9, 8) + 0.003
    x[0, 2] = 1.0
    x[0, 1] = torch.nextafter(torch.tensor(0.7), torch.tensor(1.0))  # 200.000006 or 199.999998
    truth = one.oracle(values)[0]
    near = truth.clone()
    near[0] = 399 - near[0]
    assert _judge(one, values, [near], [truth]).ok
    far = truth.clone()
    far[3] += 1
    assert not _judge(one, values, [far]).ok
