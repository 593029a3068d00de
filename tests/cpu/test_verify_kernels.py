"""On the built-ins: honest kernels of other styles pass every family, cheats fail some family."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.tasks.draw import FAMILIES, SPECIAL_VALUES
from references import Setting, Values, builtin, load_source, module_source, setting

SHAPES = {
    "argmax": {"batch": 8, "middle": 256, "cols": 257},
    "causal_attention": {"heads": 3, "length": 65, "width": 32},
    "layernorm": {"rows": 48, "cols": 1000},
    "masked_cumsum": {"rows": 24, "cols": 2048},
    "matmul_sum": {"batch": 48, "features": 512, "hidden": 384},
    "softmax": {"rows": 48, "cols": 1000},
}
Kernel = Callable[[Values], Values]


@functools.cache
def _setting(name: str) -> Setting:
    return builtin(name, **SHAPES[name])


def _softmax_online(values: Values) -> Values:
    """One pass in eight lanes that are merged at the end."""
    (x,) = values
    lanes = x.view(len(x), -1, 8)
    top, total = torch.full((len(x), 8), -math.inf), torch.zeros(len(x), 8)
    for column in lanes.unbind(1):
        higher = torch.maximum(top, column)
        total = total * torch.exp(top - higher) + torch.exp(column - higher)
        top = higher
    most = top.amax(1, keepdim=True)
    return [torch.exp(x - most) / (total * torch.exp(top - most)).sum(1, keepdim=True)]


def _softmax_by_reciprocal(values: Values) -> Values:
    powers = torch.exp2((values[0] - values[0].amax(1, keepdim=True)) * math.log2(math.e))
    return [powers * (1 / powers.sum(1, keepdim=True))]


def _layernorm_two_pass(values: Values) -> Values:
    x, weight, bias = values
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).square().mean(1, keepdim=True)
    return [(x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias]


def _layernorm_by_blocks(values: Values) -> Values:
    """Chan's merge of blocks, as a kernel with lanes does."""
    x, weight, bias = values
    blocks = x.view(len(x), 10, 100)
    means = blocks.mean(2)
    mean = means.mean(1, keepdim=True)
    within = (blocks - means[:, :, None]).square().sum((1, 2))
    between = (means - mean).square().sum(1) * 100
    variance = ((within + between) / 1000)[:, None]
    return [(x - mean) / torch.sqrt(variance + 1e-5) * weight + bias]


def _cumsum_sequential(values: Values) -> Values:
    """A carry in float32; the reference carries in float64."""
    x, mask = values
    kept, carry = x * mask, torch.zeros(len(x))
    columns = []
    for column in kept.unbind(1):
        carry = carry + column
        columns.append(carry)
    return [torch.stack(columns, 1)]


def _cumsum_by_blocks(values: Values) -> Values:
    x, mask = values
    blocks = (x * mask).view(len(x), -1, 64)
    inside = blocks.cumsum(2)
    before = inside[:, :, -1].cumsum(1) - inside[:, :, -1]
    return [(inside + before[:, :, None]).view(x.shape)]


def _matmul_sum_chunked(values: Values) -> Values:
    x, weight, bias = values
    parts = [a @ w.t() for a, w in zip(x.split(64, 1), weight.split(64, 1), strict=True)]
    return [(sum(parts[1:], parts[0]) + bias).sum(1, keepdim=True)]


def _matmul_sum_reassociated(values: Values) -> Values:
    x, weight, bias = values
    return [x @ weight.sum(0)[:, None] + bias.sum()]


def _attention_by_rows(values: Values) -> Values:
    q, k, v, _ = values
    rows = []
    for at in range(q.shape[2]):
        scores = (k[:, :, : at + 1] * q[:, :, at : at + 1]).sum(-1) / math.sqrt(q.shape[-1])
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        weighted = (powers[..., None] * v[:, :, : at + 1]).sum(2)
        rows.append(weighted / powers.sum(-1, keepdim=True))
    return [torch.stack(rows, 2)]


def _attention_fused(values: Values) -> Values:
    q, k, v, _ = values
    return [torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)]


def _argmax_by_scan(values: Values) -> Values:
    (x,) = values
    best, index = x[:, 0].clone(), torch.zeros_like(x[:, 0], dtype=torch.int64)
    for at in range(1, x.shape[1]):
        better = x[:, at] > best
        best, index = torch.where(better, x[:, at], best), torch.where(better, at, index)
    return [index]


def _softmax_single_carry(values: Values) -> Values:
    """Adds a thousand equal terms one after the other: every rounding goes the same way."""
    powers = torch.exp(values[0] - values[0].amax(1, keepdim=True))
    total = torch.zeros(len(powers))
    for column in powers.unbind(1):
        total = total + column
    return [powers / total[:, None]]


HONEST: list[tuple[str, Kernel]] = [
    ("softmax", _softmax_single_carry),
    ("softmax", _softmax_online),
    ("softmax", _softmax_by_reciprocal),
    ("layernorm", _layernorm_two_pass),
    ("layernorm", _layernorm_by_blocks),
    ("masked_cumsum", _cumsum_sequential),
    ("masked_cumsum", _cumsum_by_blocks),
    ("matmul_sum", _matmul_sum_chunked),
    ("matmul_sum", _matmul_sum_reassociated),
    ("causal_attention", _attention_by_rows),
    ("causal_attention", _attention_fused),
    ("argmax", _argmax_by_scan),
]


@pytest.mark.parametrize(("task", "kernel"), HONEST, ids=lambda v: getattr(v, "__name__", v))
def test_honest_kernels_pass_every_family(task: str, kernel: Kernel) -> None:
    one = _setting(task)
    for family in FAMILIES:
        for counter in (1, 2):
            found = one.judge(kernel, family, counter=counter)
            assert found.ok, f"{family}: {found.reason}"


def _rounded(dtype: torch.dtype) -> Callable[[Setting], Kernel]:
    """Operands rounded to a narrower dtype, computed in float32."""

    def make(one: Setting) -> Kernel:
        return lambda values: one.eager(
            [v.to(dtype).float() if v.is_floating_point() else v for v in values]
        )

    return make


def _tf32(one: Setting) -> Kernel:
    """Ten explicit bits of mantissa, to nearest, as a TF32 tensor core reads its operands."""

    def narrow(value: torch.Tensor) -> torch.Tensor:
        bits = (value.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
        return bits.view(torch.float32)

    return lambda values: one.eager([narrow(v) if v.is_floating_point() else v for v in values])


def _narrow_output(one: Setting) -> Kernel:
    return lambda values: [
        o.bfloat16().float() if o.is_floating_point() else o.to(torch.int8).long()
        for o in one.eager(values)
    ]


def _last_row_left_out(one: Setting) -> Kernel:
    def kernel(values: Values) -> Values:
        outputs = one.eager(values)
        for output in outputs:
            output[-1] = 0
        return outputs

    return kernel


def _last_column_ignored(one: Setting) -> Kernel:
    def kernel(values: Values) -> Values:
        x = values[0].clone()
        x[..., -1] = x[..., -2]
        return one.eager([x, *values[1:]])

    return kernel


def _stale(one: Setting) -> Kernel:
    earlier = one.eager(one.drawer.draw("nominal", counter=99, weights=99))
    return lambda values: earlier


def _first_weights(one: Setting) -> Kernel:
    old = one.drawer.draw("nominal", counter=99, weights=99)
    n = sum(slot.role == "input" for slot in one.signature.slots)
    return lambda values: one.eager([*values[:n], *old[n:]])


CHEATS: list[tuple[str, Callable[[Setting], Kernel]]] = [
    *((task, _rounded(torch.bfloat16)) for task in SHAPES),
    *((task, _rounded(torch.float16)) for task in SHAPES),
    *((task, _tf32) for task in SHAPES),
    *((task, _narrow_output) for task in SHAPES),
    *((task, _last_row_left_out) for task in SHAPES),
    *((task, _last_column_ignored) for task in SHAPES),
    *((task, _stale) for task in SHAPES),
    ("layernorm", _first_weights),
    ("matmul_sum", _first_weights),
]


@pytest.mark.parametrize(("task", "cheat"), CHEATS, ids=lambda v: getattr(v, "__qualname__", v))
def test_cheats_fail_the_nominal_family(task: str, cheat: Callable[[Setting], Kernel]) -> None:
    one = _setting(task)
    found = one.judge(cheat(one), "nominal")
    assert not found.ok
    assert found.error_over_budget > 1


def _one_pass_variance(values: Values) -> Values:
    x, weight, bias = values
    mean = x.mean(1, keepdim=True)
    variance = (x * x).mean(1, keepdim=True) - mean * mean
    return [(x - mean) * torch.rsqrt(variance.clamp_min(0) + 1e-5) * weight + bias]


def _without_maximum(values: Values) -> Values:
    powers = torch.exp(values[0])
    return [powers / powers.sum(1, keepdim=True)]


def _last_of_equals(values: Values) -> Values:
    (x,) = values
    return [x.shape[1] - 1 - x.flip(1).argmax(1)]


def _clamped(values: Values) -> Values:
    x, mask = values
    return [(x.clamp(-20, 20) * mask).cumsum(1)]


@pytest.mark.parametrize(
    ("task", "kernel", "families"),
    [
        ("layernorm", _one_pass_variance, {"shifted_up", "shifted_down"}),
        ("softmax", _without_maximum, {"scaled_up", "shifted_up", "shifted_down"}),
        ("argmax", _last_of_equals, {"ties", "small_integers"}),
        ("masked_cumsum", _clamped, {"scaled_up", "cancellation", "heavy_tail"}),
    ],
)
def test_what_the_nominal_family_misses_another_one_catches(
    task: str, kernel: Kernel, families: set[str]
) -> None:
    one = _setting(task)
    assert one.judge(kernel, "nominal").ok
    for family in families:
        assert not one.judge(kernel, family).ok, family


@pytest.mark.parametrize("body", ["return torch.relu(x)", "return torch.softmax(x, 1)"])
def test_special_values_must_come_out_where_the_reference_has_them(
    tmp_path: Path, body: str
) -> None:
    source = module_source(f"def forward(self, x):\n    {body}", "[torch.randn(64, 600)]")
    one = setting(load_source(tmp_path, "SPECIAL_VALUES = True\n" + source))
    assert one.reference.special_values
    model = one.reference.build({}, seed=0)
    assert one.judge(lambda values: [model(values[0].clone())], SPECIAL_VALUES).ok
    found = one.judge(lambda values: [model(values[0].nan_to_num(0.0))], SPECIAL_VALUES)
    assert not found.ok
    assert "NaN or Inf" in found.reason
