"""What others use of the machine is told apart from what is ours."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from kernelwright.judge.measure import Occupancy


def _spin(until: float) -> None:
    while time.monotonic() < until:
        pass


def test_another_process_counts_and_our_own_time_does_not() -> None:
    context = multiprocessing.get_context("fork")
    foreign = Occupancy(time.process_time_ns)
    child = context.Process(target=_spin, args=(time.monotonic() + 1.0,))
    child.start()
    _spin(time.monotonic() + 1.0)
    child.join()
    busy = foreign.foreign_cores()
    everything = Occupancy(lambda: 0)
    _spin(time.monotonic() + 0.5)
    assert busy > 0.3
    assert everything.foreign_cores() > 0.5


def test_no_time_that_is_ours_makes_it_negative() -> None:
    told = iter([0, 10**15])
    assert Occupancy(lambda: next(told)).foreign_cores() == 0.0


def test_a_machine_that_tells_nothing_is_taken_as_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.judge.measure.occupancy.busy_ns", lambda: 0)
    assert Occupancy(time.process_time_ns).foreign_cores() == 0.0
