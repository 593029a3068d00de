"""The oracle computes in float64 whatever the reference says, and knows its condition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.judge.verify.terms import growth
from references import Setting, load_source, module_source, setting

INPUTS = "[torch.randn(8, 16)]"


def _setting(folder: Path, body: str, inputs: str = INPUTS) -> Setting:
    return setting(load_source(folder, module_source(body, inputs)))


@pytest.mark.parametrize(
    "expression",
    [
        "(x.float() * third).sum(1)",
        "x.sum(1, dtype=torch.float32) * third",
        "x.half().float().sum(1) * third",
        "(x.to(torch.bfloat16) * third).sum(1).to(torch.float32)",
        "(x * torch.full((16,), 1.0, dtype=torch.float32) * third).sum(1)",
        "(x * torch.ones(16) * third).sum(1)",
        "(x * self.plain * third).sum(1)",
        "(x * self.buffer * third).sum(1)",
        "torch.zeros(8, dtype=torch.float32).add_((x * third).sum(1))",
        "(x * torch.tensor(third, dtype=torch.float64)).sum(1).type(torch.float32)",
        "torch.empty_like(x, dtype=torch.float32).copy_(x).sum(1) * third",
    ],
)
def test_nothing_narrows_the_truth(tmp_path: Path, expression: str) -> None:
    body = f"""
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(16)
        self.register_buffer("buffer", torch.ones(16))

    def forward(self, x):
        third = 1 / 3
        return {expression}
    """
    one = _setting(tmp_path, body)
    values = one.drawer.draw("nominal", counter=1, weights=1)
    (truth,) = one.oracle(values)
    assert truth.dtype == torch.float64
    expected = values[0].double().sum(1) / 3
    torch.testing.assert_close(truth, expected, rtol=1e-13, atol=1e-13)
    assert torch.get_default_dtype() == torch.float32


def test_parameters_statistics_and_state_are_wide_too(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.lstm = nn.LSTM(16, 4, batch_first=True)

    def forward(self, x):
        return self.lstm(self.norm(x).unsqueeze(1))[0]
    """
    one = _setting(tmp_path, body)
    values = one.drawer.draw("nominal", counter=1, weights=1)
    truth = one.oracle(values)
    x, mean = (
        values[0].double(),
        values[[s.name for s in one.signature.slots].index("norm.running_mean")],
    )
    expected = 0.9 * mean.double() + 0.1 * x.mean(0)
    torch.testing.assert_close(truth[1], expected, rtol=1e-13, atol=1e-13)
    again = one.oracle(values)
    assert all(map(torch.equal, truth, again))
    for got, want in zip(one.eager(values), truth, strict=True):
        torch.testing.assert_close(got.double(), want.double(), rtol=1e-4, atol=1e-5)


def test_the_truth_outlives_the_next_call(tmp_path: Path) -> None:
    one = _setting(tmp_path, "def forward(self, x):\n    return x.t()")
    first = one.drawer.draw("nominal", counter=1, weights=1)
    (truth,) = one.oracle(first)
    one.oracle(one.drawer.draw("nominal", counter=2, weights=1))
    assert torch.equal(truth, first[0].double().t())


def test_an_operator_without_float64_is_run_in_float32_and_named(tmp_path: Path) -> None:
    with torch.library._scoped_library("kernelwright_test", "DEF") as library:
        library.define("single(Tensor x) -> Tensor")

        def single(x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise NotImplementedError("\"single\" not implemented for 'Double'")
            return x.exp()

        library.impl("single", single, "CPU")
        body = "def forward(self, x):\n    return torch.ops.kernelwright_test.single(x) * (1 / 3)"
        one = _setting(tmp_path, body)
        assert one.oracle.notes == ()
        values = one.drawer.draw("nominal", counter=1, weights=1)
        (truth,) = one.oracle(values)
        assert torch.equal(truth, values[0].exp().double() * (1 / 3))
        assert one.oracle.notes == ("the oracle ran kernelwright_test::single in float32",)


def test_other_failures_are_not_swallowed(tmp_path: Path) -> None:
    body = """
    def forward(self, x):
        if x.dtype == torch.float64:
            raise RuntimeError("of its own")
        return x + 1
    """
    one = _setting(tmp_path, body)
    with pytest.raises(RuntimeError, match="of its own"):
        one.oracle(one.drawer.draw("nominal", counter=1, weights=1))


def test_sensitivity_of_a_sum_is_the_sum_of_sizes(tmp_path: Path) -> None:
    one = _setting(tmp_path, "def forward(self, x):\n    return x.sum(1)", "[torch.randn(64, 96)]")
    for family in ("nominal", "cancellation", "shifted_up"):
        values = one.drawer.draw(family, counter=1, weights=1)
        (scale,) = one.oracle.sensitivity(values, one.oracle(values))
        assert isinstance(scale, torch.Tensor)
        factor = growth(96, coherent=False)
        exact = values[0].double().abs().sum(1) * factor
        exact += values[0].double().sum(1).abs() * (factor - 1)
        torch.testing.assert_close(scale, exact, rtol=1e-6, atol=1e-6)


def test_sensitivity_of_a_product_covers_its_rounding(tmp_path: Path) -> None:
    body = "def forward(self, x, y):\n    return x @ y"
    one = _setting(tmp_path, body, "[torch.randn(24, 96), torch.randn(96, 24)]")
    values = one.drawer.draw("nominal", counter=1, weights=1)
    (scale,) = one.oracle.sensitivity(values, one.oracle(values))
    exact = values[0].double().abs() @ values[1].double().abs() * growth(96, coherent=False)
    assert isinstance(scale, torch.Tensor)
    # |J||x| has both factors move: twice |x||y|. From mixed signs it is met up to sqrt(n).
    assert bool((scale <= 2.4 * exact).all()), "and 0.55 of its own size for the long sum"
    assert bool(scale.mean() >= 2 * exact.mean() / 96**0.5)


def test_sensitivity_of_what_ignores_its_input_is_nothing(tmp_path: Path) -> None:
    one = _setting(tmp_path, "def forward(self, x):\n    return x * 0 + 3")
    values = one.drawer.draw("nominal", counter=1, weights=1)
    (scale,) = one.oracle.sensitivity(values, one.oracle(values))
    assert isinstance(scale, torch.Tensor)
    assert float(scale.max()) == 0.0
