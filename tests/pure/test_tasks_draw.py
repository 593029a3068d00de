"""Draws are new numbers, reproducible under their key, of the family they are named for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.tasks.draw import FAMILIES, SPECIAL_VALUES
from references import Setting, builtin, load_source, module_source, setting

SIZE = 64 * 96


@pytest.fixture(scope="module")
def softmax() -> Setting:
    return builtin("softmax", rows=64, cols=96)


def _correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of the middle 98 %: a few large numbers that meet by chance would outweigh all others."""
    ends = torch.tensor([0.01, 0.99])
    clipped = [v.flatten().clamp(*torch.quantile(v.flatten(), ends)).double() for v in (a, b)]
    return float(np.abs(np.corrcoef(*clipped)[0, 1]))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(FAMILIES)),
    st.sampled_from(list(FAMILIES)),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
)
def test_no_draw_is_a_shifted_scaled_or_sorted_copy_of_another(
    softmax: Setting, family: str, other: str, counter: int, later: int
) -> None:
    a = softmax.drawer.draw(family, counter=counter, weights=0)[0]
    again = softmax.drawer.draw(family, counter=counter, weights=0)[0]
    assert torch.equal(a, again)
    if (family, counter) == (other, later):
        return
    b = softmax.drawer.draw(other, counter=later, weights=0)[0]
    # Five standard deviations of the correlation of independent numbers.
    assert _correlation(a, b) < 5 / SIZE**0.5
    assert _correlation(a, b.flip(-1)) < 5 / SIZE**0.5
    if family == other and family not in ("ties", "small_integers"):
        assert not torch.equal(a.flatten().sort().values, b.flatten().sort().values)


def test_another_key_gives_other_numbers() -> None:
    one = builtin("softmax", rows=64, cols=96)
    two = setting(one.reference, one.shape, key=8)
    for family in FAMILIES:
        a = one.drawer.draw(family, counter=3, weights=0)[0]
        b = two.drawer.draw(family, counter=3, weights=0)[0]
        assert _correlation(a, b) < 5 / SIZE**0.5


def test_families_are_what_their_names_say(softmax: Setting) -> None:
    drawn = {f: softmax.drawer.draw(f, counter=1, weights=0)[0].double() for f in FAMILIES}
    assert 0.95 < drawn["nominal"].std() < 1.05
    assert 0.95 < drawn["zero_mean"].std() < 1.05
    assert abs(drawn["zero_mean"].mean()) < 0.07
    assert 27 < drawn["scaled_up"].std() < 33
    assert 0.9e-3 < drawn["scaled_down"].std() < 1.1e-3
    assert drawn["shifted_up"].min() > 90
    assert drawn["shifted_down"].max() < -90
    assert drawn["shifted_up"].std() < 1.1
    assert drawn["impulse"].abs().median() < 0.02 < 4 < drawn["impulse"].abs().max()
    assert drawn["heavy_tail"].abs().max() > 10
    pairs = drawn["cancellation"].reshape(64, 48, 2)
    assert pairs.sum(-1).std() < 2 < 20 < pairs.std()
    assert set(drawn["ties"].unique().tolist()) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    assert set(drawn["small_integers"].unique().tolist()) == set(range(-3, 4))


def test_special_values_are_few_and_of_every_kind(softmax: Setting) -> None:
    (drawn,) = softmax.drawer.draw(SPECIAL_VALUES, counter=1, weights=0)
    more = torch.stack(
        [softmax.drawer.draw(SPECIAL_VALUES, counter=c, weights=0)[0] for c in range(8)]
    )
    assert 0 < int((~drawn.isfinite()).sum()) < 20
    assert more.isnan().any()
    assert {float("inf"), -float("inf")} <= set(more.flatten().tolist())
    assert ((more != 0) & (more.abs() < torch.finfo(torch.float32).smallest_normal)).any()
    assert (more == 0).any()


def test_a_shift_is_common_to_all_inputs(tmp_path: Path) -> None:
    body = "def forward(self, x, y):\n    return x - y"
    source = module_source(body, "[torch.randn(64, 64), 3 * torch.randn(64, 64)]")
    values = setting(load_source(tmp_path, source)).drawer.draw("shifted_up", counter=1, weights=0)
    assert abs(values[0].mean() - values[1].mean()) < 1
    assert abs(values[0].mean()) > 20


def test_integers_stay_what_the_task_makes_them_and_flags_do_not(tmp_path: Path) -> None:
    body = "def forward(self, x, keep, at):\n    return (x * keep)[at]"
    inputs = "[torch.randn(16, 8), torch.ones(16, 8, dtype=torch.bool), torch.arange(4)]"
    drawer = setting(load_source(tmp_path, module_source(body, inputs))).drawer
    for family in FAMILIES:
        _, keep, at = drawer.draw(family, counter=1, weights=0)
        assert keep.dtype == torch.bool
        assert bool(keep.all()) == (family == "nominal")
        assert bool(keep.any())
        assert at.tolist() == [0, 1, 2, 3]


def test_parameters_keep_their_spread_and_constant_ones_get_one() -> None:
    norm = builtin("layernorm", rows=4, cols=4096)
    _, weight, bias = norm.drawer.draw("nominal", counter=1, weights=1)
    assert abs(weight.mean() - 1) < 0.03
    assert abs(bias.mean()) < 0.03
    assert 0.23 < weight.std() < 0.27
    assert 0.23 < bias.std() < 0.27
    same = norm.drawer.draw("zero_mean", counter=9, weights=1)
    other = norm.drawer.draw("nominal", counter=1, weights=2)
    assert torch.equal(same[1], weight)
    assert not torch.equal(other[1], weight)
    linear = builtin("matmul_sum", batch=4, features=64, hidden=64)
    own = linear.reference.build(linear.shape, seed=0).linear.weight
    drawn = linear.drawer.draw("nominal", counter=1, weights=1)[1]
    assert 0.9 < drawn.std() / own.std() < 1.1


def test_constants_are_never_redrawn_and_statistics_are(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)))
        self.norm = nn.BatchNorm1d(16).eval()

    def forward(self, x):
        return self.norm(x @ self.mask)
    """
    one = setting(load_source(tmp_path, module_source(body)))
    roles = {slot.name: at for at, slot in enumerate(one.signature.slots)}
    first = one.drawer.draw("nominal", counter=1, weights=1)
    second = one.drawer.draw("nominal", counter=2, weights=2)
    assert torch.equal(first[roles["mask"]], torch.tril(torch.ones(16, 16)))
    assert torch.equal(first[roles["mask"]], second[roles["mask"]])
    variance = first[roles["norm.running_var"]]
    assert bool(((variance > 0.5) & (variance < 1.5)).all())
    assert not torch.equal(variance, second[roles["norm.running_var"]])


def test_layout_and_dtype_are_the_slots_own(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return x + 1"
    source = module_source(body, "[torch.randn(8, 16).t().bfloat16()]")
    one = setting(load_source(tmp_path, source))
    for family in FAMILIES:
        (value,) = one.drawer.draw(family, counter=1, weights=0)
        assert value.dtype == torch.bfloat16
        assert tuple(value.stride()) == one.signature.slots[0].strides == (1, 16)


def test_inputs_of_no_dimension_and_of_no_elements(tmp_path: Path) -> None:
    body = "def forward(self, x, y):\n    return x + y.sum()"
    source = module_source(body, "[torch.randn(()), torch.randn(0, 4)]")
    one = setting(load_source(tmp_path, source))
    for family in FAMILIES:
        x, y = one.drawer.draw(family, counter=1, weights=0)
        assert (x.shape, y.shape) == ((), (0, 4))
