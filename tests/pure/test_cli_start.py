"""What the program costs to start, and what it says to words that it does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

import program

IMPORT_BOUND_CPU_S = 1.0
"""Far above what it takes, since machines differ. Reading torch by accident costs 2 s and more."""


def _cpu_s(code: str) -> float:
    timed = f"import time; {code}; print(time.process_time())"
    ran = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, timeout=60
    )
    return float(ran.stdout)


def test_import_is_cheap_and_reads_no_torch(record_property):
    cost_cpu_s = _cpu_s("import kernelwright")
    record_property("import_cpu_s", cost_cpu_s)
    print(f"import kernelwright: {cost_cpu_s:.3f} CPU-s")
    assert cost_cpu_s < IMPORT_BOUND_CPU_S


@pytest.mark.parametrize("module", ["kernelwright.cli.app", "kernelwright.runs"])
def test_the_command_line_and_runs_do_not_import_torch(module):
    _cpu_s(f"import {module}, sys; assert 'torch' not in sys.modules")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["optimise", "softmax"], 'Did you mean "optimize"?'),
        (["judge", "k.cpp"], "requires an argument"),
        (["optimize", "softmax", "--bugdet", "9s"], "Unknown option: --bugdet"),
        (["optimize", "softmax", "--tier", "T9"], 'Invalid value "T9" for --tier'),
        (["optimize", "softmax", "--seed", "-1"], "Must be >= 0"),
        (["judge", "k.cpp"], "--task"),
        (["tasks", "shwo"], "shwo"),
        (["doctor", "now"], "now"),
    ],
)
def test_words_it_does_not_know_are_one_line_and_status_2(words, said):
    ran = program.run(*words)
    assert ran.status == 2
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    assert said in ran.complaint
    assert ran.complaint.endswith("See kernelwright --help.")


def test_with_json_an_error_is_an_object_too():
    ran = program.run("optimise", "softmax", "--json")
    assert ran.status == 2
    assert "optimize" in ran.json["error"]


def test_help_and_version_are_no_errors():
    for words in (["--help"], ["--version"], ["optimize", "--help"], ["tasks", "--help"], []):
        ran = program.run(*words)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out
