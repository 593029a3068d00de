"""How a budget is written, how results are worded, and what the object of a result holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import records
from kernelwright.core import Accepted, Inconclusive, NotTimed, Rejected
from kernelwright.core.errors import BudgetMalformed
from kernelwright.core.run import read_budget
from kernelwright.report.words import milliseconds, summarise


@pytest.mark.parametrize(
    ("text", "wall_s", "evaluations"),
    [
        ("90s", 90, 10_000),
        ("1.5m", 90, 10_000),
        ("1h", 3600, 10_000),
        ("20", 3600, 20),
        ("5m,20", 300, 20),
        ("20, 5m", 300, 20),
    ],
)
def test_a_budget_is_a_time_a_count_or_both(text, wall_s, evaluations):
    budget = read_budget(text)
    assert (budget.wall_s, budget.evaluations) == (wall_s, evaluations)


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "-5s", "90 seconds", "1d", "s", "5s,6s", "1,2", "5m,", "nan", "1e3s"]
)
def test_anything_else_is_refused_with_the_forms(text):
    with pytest.raises(BudgetMalformed, match="Write 90s, 5m, 1h, or a number of candidates"):
        read_budget(text)


@given(st.text(max_size=12))
def test_no_text_makes_the_budget_reader_fail_otherwise(text):
    try:
        budget = read_budget(text)
    except BudgetMalformed:
        return
    assert budget.wall_s > 0
    assert budget.evaluations > 0


def test_every_outcome_is_one_line():
    lines = {
        summarise(records.verdict(Rejected(stage="build", reason="a\n  b"))): "rejected (build)",
        summarise(records.verdict(Inconclusive(reason="busy"))): "inconclusive: busy",
        summarise(records.timed(1.1, 1.2, 1.3)): "win  1.20x [1.10, 1.30] vs eager",
        summarise(records.timed(0.9, 1.2, 1.3)): "right  1.20x [0.90, 1.30] vs eager",
        summarise(
            records.verdict(Accepted(correctness=records.CORRECTNESS, timing=NotTimed()))
        ): "builds and loads",
    }
    for line, start in lines.items():
        assert line.startswith(start)
        assert "\n" not in line


@pytest.mark.parametrize(
    ("wall_ns", "text"),
    [(12_345_678, "12.3 ms"), (123_456_789, "123 ms"), (12_345, "0.0123 ms"), (2e9, "2000 ms")],
)
def test_times_have_three_digits(wall_ns, text):
    assert milliseconds(wall_ns) == text
