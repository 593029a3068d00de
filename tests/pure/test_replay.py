"""A stored Run answers like the judge that made it, without a compiler."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

import records
from kernelwright.core import Accepted, Budget, Measured, Unresolved
from kernelwright.judge.measure import median_interval, ratio_interval
from kernelwright.optimize import optimize
from kernelwright.propose import Problem
from kernelwright.runs import NotReplayable, Replay, create_run, open_run

STORED = Path(__file__).resolve().parents[1] / "data" / "layernorm"


def replay(tmp_path, **budget):
    stored = open_run(STORED)
    source = Replay(stored)
    problem = Problem(stored.record.task, reference=None, shape={}, signature=None)
    folder = create_run(tmp_path, records.run_record())
    answer = optimize(
        source,
        source,
        problem,
        folder,
        budget=Budget(**budget),
        started=time.monotonic(),
        watch=lambda *_: None,
    )
    return answer, folder


def test_the_loop_comes_to_the_same_answer_and_the_same_bytes(tmp_path):
    answer, folder = replay(tmp_path, wall_s=3600)
    stored = open_run(STORED)
    assert answer.outcome == "win"
    assert answer.best == stored.best()
    assert folder.verdicts() == stored.verdicts()
    names = ("verdicts.jsonl",)
    assert [(folder.path / n).read_bytes() for n in names] == [
        (STORED / n).read_bytes() for n in names
    ]


def test_what_was_never_judged_is_not_made_up(tmp_path):
    verdicts = open_run(STORED).verdicts()
    confirmed = {verdict.candidate for verdict in verdicts if verdict.tier == "T2"}
    assert verdicts[0].candidate not in confirmed
    with pytest.raises(NotReplayable, match="no T2 verdict"):
        replay(tmp_path, wall_s=3600, evaluations=1)


def test_every_interval_follows_from_the_stored_samples():
    checked = 0
    for verdict in open_run(STORED).verdicts():
        match verdict.outcome:
            case Accepted(timing=Measured(against=several) | Unresolved(against=several)):
                for one in several:
                    assert one.pairs == len(one.samples_ns)
                    logs = [math.log(a / b) for a, b in one.samples_ns]
                    blocks = [(a + b) / 2 for a, b in zip(logs[::2], logs[1::2], strict=True)]
                    assert ratio_interval(blocks) == pytest.approx(one.speedup)
                    mine = median_interval([float(b) for _, b in one.samples_ns])
                    assert mine == pytest.approx(one.candidate_ns)
                    checked += 1
    assert checked > 8
