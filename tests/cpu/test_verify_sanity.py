"""The sanity gate: outputs that ignore the work fail on sound Tasks and are named on weak ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.judge.verify import SanityReport, sanity_gate, tells_work_from_none
from kernelwright.tasks.draw import FAMILIES
from references import Setting, builtin, load_source, module_source, setting

SHAPES = {
    "argmax": {"batch": 4, "middle": 67, "cols": 33},
    "causal_attention": {"heads": 3, "length": 65, "width": 32},
    "layernorm": {"rows": 48, "cols": 1000},
    "masked_cumsum": {"rows": 24, "cols": 2048},
    "matmul_sum": {"batch": 48, "features": 512, "hidden": 384},
    "softmax": {"rows": 48, "cols": 1000},
}
WORKLESS = ("zeros", "the best constant", "another input's output", "a tenth of the input")


def _gate(one: Setting) -> SanityReport:
    return sanity_gate(one.drawer, one.signature, one.oracle, eager=one.eager, precision="native")


def _setting(folder: Path, body: str, inputs: str = "[torch.randn(64, 96)]") -> Setting:
    return setting(load_source(folder, module_source(body, inputs)))


@pytest.mark.parametrize("name", list(SHAPES))
def test_no_mutant_survives_on_a_built_in_and_every_family_counts(name: str) -> None:
    one = builtin(name, **SHAPES[name])
    report = _gate(one)
    assert report.survivors == ()
    assert set(report.tried) >= set(WORKLESS)
    for at, family in enumerate(FAMILIES):
        values = one.drawer.draw(family, counter=at, weights=at)
        assert tells_work_from_none(one.oracle(values), one.eager(values), precision="native"), (
            family
        )


def test_each_parameter_is_dropped() -> None:
    report = _gate(builtin("layernorm", rows=8, cols=64))
    assert {"norm.weight ignored", "norm.bias ignored"} <= set(report.tried)
    assert report.left_out == 0


def test_an_index_that_is_the_same_in_every_draw_is_named(tmp_path: Path) -> None:
    body = "def forward(self, x, at, other, keep):\n    return (x * keep)[at] + x[other]"
    inputs = (
        "[torch.randn(64, 96), torch.arange(32), torch.randint(64, (32,)), "
        "torch.ones(96, dtype=torch.bool)]"
    )
    report = _gate(_setting(tmp_path, body, inputs))
    assert len(report.fixed) == 1
    assert "1" in report.fixed[0]


def test_a_bias_that_a_norm_cancels_is_dead_by_algebra(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 32)
        self.norm = nn.BatchNorm1d(32, track_running_stats=False)

    def forward(self, x):
        return self.norm(self.linear(x))
    """
    report = _gate(_setting(tmp_path, body))
    assert "linear.weight ignored" in report.tried
    assert "linear.bias ignored" not in report.tried
    assert report.survivors == ()


@pytest.mark.parametrize(
    ("expression", "survivor"),
    [
        ("x * 0", "zeros"),
        ("x * 0 + 3.7", "the best constant"),
        ("x * 1e-12 + 3.7", "another input's output"),
        ("x * 1e-12 + 3.7", "a tenth of the input"),
        ("(x.mean(1, keepdim=True) - x.mean(1, keepdim=True)).relu()", "zeros"),
        ("(x.sum(1) * 0 + x[:, 0], x.sum(1) * 0)", "zeros"),
        ("(x > 1e6)", "zeros"),
    ],
)
def test_a_task_that_no_work_solves_is_flagged(
    tmp_path: Path, expression: str, survivor: str
) -> None:
    report = _gate(_setting(tmp_path, f"def forward(self, x):\n    return {expression}"))
    assert survivor in report.survivors


def test_a_family_on_which_no_work_passes_is_no_evidence(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return torch.floor(x.abs() / 4)"
    one = _setting(tmp_path, body)
    evidence = {}
    for family in ("scaled_up", "scaled_down", "ties"):
        values = one.drawer.draw(family, counter=1, weights=1)
        evidence[family] = tells_work_from_none(
            one.oracle(values), one.eager(values), precision="native"
        )
    assert evidence == {"scaled_up": True, "scaled_down": False, "ties": False}


def test_state_that_is_not_updated_is_noticed_and_a_counter_is_no_weakness(
    tmp_path: Path,
) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(96)

    def forward(self, x):
        return self.norm(x)
    """
    report = _gate(_setting(tmp_path, body))
    assert "state left as it was" in report.tried
    assert report.survivors == ()


def test_a_loss_of_one_number_is_told_from_a_constant(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    return (x * x).mean()"
    report = _gate(_setting(tmp_path, body))
    assert "the best constant" in report.tried
    assert report.survivors == ()


def test_very_many_parameters_are_sampled_and_counted(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(96, 96) for _ in range(40)))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
    """
    report = _gate(_setting(tmp_path, body))
    dropped = [name for name in report.tried if name.endswith("ignored")]
    assert len(dropped) + report.left_out == 80
    assert 20 <= len(dropped) <= 32


def test_a_looser_class_lets_more_through(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(96) * 1e-3)

    def forward(self, x):
        return x * (1 + self.gain)
    """
    one = _setting(tmp_path, body)

    def gate(precision: str) -> tuple[str, ...]:
        return sanity_gate(
            one.drawer, one.signature, one.oracle, eager=one.eager, precision=precision
        ).survivors

    assert gate("native") == ()
    assert gate("bf16") == ("gain ignored",)
