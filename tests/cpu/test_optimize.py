"""The loop with a real judge: candidates that misbehave cost a Verdict each and nothing else."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

import program
import records
from kernelwright.core import Accepted, Budget, Candidate, Rejected, SourceFile
from kernelwright.judge import open_session
from kernelwright.optimize import optimize
from kernelwright.propose import CannedProposer, Problem
from kernelwright.runs import create_run, open_run
from kernelwright.sandbox import default_limits
from kernelwright.tasks.catalog import find_task

pytestmark = pytest.mark.serial

TASK = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + x * x
def get_inputs():
    return [torch.randn(256, 1024)]
def get_init_inputs():
    return []
"""
PROLOGUE = """
#include "kernelwright.h"
#include <stdio.h>
#include <unistd.h>
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  const long n = in[0].sizes[0] * in[0].sizes[1];
  const auto f = [](float v) { return (v > 0 ? 2 * v : 0) + v * v; };
"""
WORK = "\nfor (long i = 0; i < n; i++) y[i] = f(x[i]);\n"
SLOW = """
for (int k = 0; k < 20; k++)
  for (long i = 0; i < n; i++) ((volatile float*)y)[i] = f(x[i]);
"""
PRINTS = 'for (long i = 0; i < (1L << 25); i++) printf("%s", "0123456789012345678901234567890");'
WRONG_SHAPE = """
from torch import nn
class ModelNew(nn.Module):
    def forward(self, x):
        return (x.relu() * 2 + x * x)[:-1]
"""


def cpp(body: str, idea: str) -> Candidate:
    source = SourceFile(name="k.cpp", text=PROLOGUE + body + "\n}\n")
    return Candidate(kind="cpp", sources=(source,), idea=idea)


GOOD = cpp(WORK, "honest")
SLOWER = cpp(SLOW, "honest but slow")
MISBEHAVING = {
    cpp("int = ;", "no C++"): ("build", "error"),
    cpp("*(volatile int*)0 = 1;", "crashes"): ("", "SIGSEGV"),
    cpp("for (volatile int i = 0;; i++) {}", "hangs"): ("", "no reply within 3 s"),
    cpp(PRINTS, "only prints a gigabyte"): ("verify", ""),
    cpp("y[0] = 1;", "does nothing"): ("verify", ""),
    Candidate(
        kind="python",
        sources=(SourceFile(name="model_new.py", text=WRONG_SHAPE),),
        idea="wrong shape",
    ): ("verify", "expected float32[256, 1024]"),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "task.py"
    path.write_text(TASK)
    with pytest.MonkeyPatch.context() as patch:
        impatient = dataclasses.replace(default_limits(), call_s=3.0)
        patch.setattr("kernelwright.judge.session.default_limits", lambda: impatient)
        with open_session(find_task(str(path))) as opened:
            yield opened


def run(session, candidates, root: Path, *, watch=lambda *_: None, **budget):
    """Once more where neighbours kept the machine busy: what is tested is the loop."""
    answer, folder = run_once(session, candidates, root, watch, Budget(**budget))
    for again in ("second", "third"):
        if answer.outcome == "inconclusive":
            answer, folder = run_once(session, candidates, root / again, watch, Budget(**budget))
    return answer, folder


def run_once(session, candidates, root: Path, watch, budget: Budget):
    folder = create_run(root, records.run_record())
    answer = optimize(
        session,
        CannedProposer(candidates),
        Problem(session.task, session.reference, session.shape, session.main.signature),
        folder,
        budget=budget,
        started=time.monotonic(),
        watch=watch,
    )
    return answer, open_run(folder.path)


def test_candidates_that_misbehave_are_rejected_and_the_honest_one_is_confirmed(session, tmp_path):
    alive = set(program.workers_of(os.getpid()))
    answer, folder = run(session, [*MISBEHAVING, GOOD], tmp_path, wall_s=300)
    verdicts = folder.verdicts()
    for (candidate, (stage, said)), verdict in zip(MISBEHAVING.items(), verdicts, strict=False):
        assert isinstance(verdict.outcome, Rejected), candidate.idea
        assert verdict.outcome.stage == stage or not stage, candidate.idea
        assert said in verdict.outcome.reason, candidate.idea
        assert folder.load_candidate(verdict.candidate) == candidate
    assert isinstance(verdicts[-1].outcome, Accepted)
    assert (verdicts[-1].candidate, verdicts[-1].tier) == (GOOD.id, "T2")
    assert answer.best == verdicts[-1]
    assert (answer.candidates, answer.accepted) == (len(MISBEHAVING) + 1, 1)
    assert set(program.workers_of(os.getpid())) <= alive


def test_the_outcome_is_the_final_verdicts_and_a_slow_kernel_is_no_win(session, tmp_path):
    answer, folder = run(session, [SLOWER], tmp_path, wall_s=300)
    assert answer.outcome == "no_win"
    assert answer.best.tier == "T2"
    assert answer.best.speedup.high < 1
    assert answer.first_win_s is None
    assert folder.best() is None


def test_the_better_one_is_confirmed_first_and_repeats_count_once(session, tmp_path):
    answer, folder = run(session, [SLOWER, GOOD, GOOD], tmp_path, wall_s=300)
    assert (answer.candidates, answer.accepted) == (2, 2)
    final = [v for v in folder.verdicts() if v.tier == "T2"]
    assert final[0].candidate == GOOD.id
    assert SLOWER.id not in [v.candidate for v in final], "it cannot win any more"


def test_each_limit_of_the_budget_ends_the_search(session, tmp_path):
    many = [cpp(WORK + f"// {n}", f"number {n}") for n in range(50)]
    by_count, _ = run(session, many, tmp_path / "count", wall_s=300, evaluations=2)
    assert by_count.candidates == 2
    by_time, _ = run(session, many, tmp_path / "time", wall_s=0.001)
    assert by_time.candidates == 1, "one is judged whatever start-up took"
    assert by_time.best is not None, "and confirmed"


def test_no_candidate_at_all_is_no_win(session, tmp_path):
    answer, folder = run(session, [], tmp_path, wall_s=300)
    assert (answer.outcome, answer.best, answer.candidates) == ("no_win", None, 0)
    assert folder.verdicts() == []


def test_an_interrupt_keeps_what_was_judged(session, tmp_path):
    def interrupt(candidate, verdict):
        raise KeyboardInterrupt

    answer, folder = run(session, [GOOD, SLOWER], tmp_path, watch=interrupt, wall_s=300)
    assert answer.outcome == "interrupted"
    assert [v.candidate for v in folder.verdicts()] == [GOOD.id]
