"""The gates, one after another, on one small Task; every Candidate goes the way a user's would."""

import json
import random

import pytest
import torch

from kernelwright.core import (
    Accepted,
    Candidate,
    Inconclusive,
    Measured,
    NotTimed,
    Rejected,
    SourceFile,
    Unresolved,
)
from kernelwright.judge import REWARDS, open_session
from kernelwright.sandbox import NO_JAIL, Jail, probe_jail
from kernelwright.tasks.catalog import find_task
from program import own_children

TASK = """
import torch
from torch import nn

DOMAIN = {"rows": (1, 1024), "cols": (1, 1024)}

class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(cols))

    def forward(self, x):
        return torch.softmax(x, dim=-1) * self.scale

def get_inputs(rows=512, cols=256):
    return [torch.randn(rows, cols)]

def get_init_inputs(cols=256):
    return [cols]
"""
HEAD = """
#include "kernelwright.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void softmax(const float* x, const float* scale, float* y, long C) {
  float top = -INFINITY;
  double sum = 0;
  for (long c = 0; c < C; c++) top = x[c] > top ? x[c] : top;
  for (long c = 0; c < C; c++) sum += y[c] = expf(x[c] - top);
  for (long c = 0; c < C; c++) y[c] = y[c] / (float)sum * scale[c];
}
extern "C" void kernel(const kw_tensor* in, int, kw_tensor* out, int) {
  const float* x = (const float*)in[0].data;
  const float* scale = (const float*)in[1].data;
  float* y = (float*)out[0].data;
  const long R = in[0].sizes[0], C = in[0].sizes[1];
  (void)x, (void)scale, (void)y, (void)R, (void)C;
"""
HONEST = "for (long r = 0; r < R; r++) softmax(x + r * C, scale, y + r * C, C);"
STATIC = "static char buffer[1 << 24]; static int calls; (void)buffer; (void)calls;"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "scaled_softmax.py"
    path.write_text(TASK)
    with open_session(find_task(str(path))) as session:
        yield session


def cpp(body):
    return Candidate(kind="cpp", sources=(SourceFile(name="k.cpp", text=HEAD + body + "\n}\n"),))


def python(text):
    return Candidate(kind="python", sources=(SourceFile(name="model_new.py", text=text),))


def refusal(session, candidate, tier="T1"):
    outcome = session.judge(candidate, tier).outcome
    assert isinstance(outcome, Rejected), outcome
    return outcome


def test_an_honest_kernel_is_accepted_and_timed(session):
    verdict = session.judge(cpp(HONEST), "T1")
    assert isinstance(verdict.outcome, Accepted), verdict.outcome
    assert isinstance(verdict.outcome.timing, Measured | Unresolved)
    assert verdict.outcome.correctness.error_over_budget <= 1
    assert verdict.outcome.correctness.calls >= 3
    assert verdict.provenance.sandbox == probe_jail().tier
    assert not verdict.provenance.certified
    low, mid, high = verdict.speedup
    assert low <= mid <= high


def test_t0_builds_loads_and_times_nothing(session):
    outcome = session.judge(cpp(HONEST), "T0").outcome
    assert isinstance(outcome, Accepted)
    assert isinstance(outcome.timing, NotTimed)


def test_one_number_of_a_redraw_means_one_set_of_parameters(session):
    rng = random.Random(0)
    seen = {}
    for _ in range(60):
        one = session.main.fresh(rng.choice(["nominal", "nominal", "small_integers", "ties"]))
        scale = one.values[1]
        assert torch.equal(scale, seen.setdefault(one.weights, scale))
    assert len(seen) > 20


@pytest.mark.serial
def test_t2_sees_other_shapes_all_families_and_every_baseline(session):
    outcome = session.judge(cpp(HONEST), "T2").outcome
    assert isinstance(outcome, Accepted), outcome
    assert len(outcome.correctness.shapes) >= 3
    assert len(outcome.correctness.families) >= 8
    assert outcome.correctness.weight_sets > 10
    assert {a.baseline for a in outcome.timing.against} >= {"eager", "compile"}


def test_t2_finds_what_runs_past_the_end_of_its_scratch(session):
    body = "volatile float* s = (float*)malloc(4 * C); s[C] = 0; free((void*)s);" + HONEST
    outcome = refusal(session, cpp(body), "T2")
    assert outcome.stage == "verify"
    assert "past the end of a block" in outcome.reason
    assert "every buffer ends at a fence" in outcome.reason


@pytest.mark.parametrize("value", ["-1", "0"])
def test_t2_finds_what_fills_the_last_cache_line_of_its_output(session, value):
    body = HONEST + f"memset(y + R * C, {value}, -(4 * R * C) & 63);"
    outcome = refusal(session, cpp(body), "T2")
    assert outcome.stage == "verify"
    assert "past the end of output 0" in outcome.reason


@pytest.mark.serial
def test_t2_accepts_a_plain_float_loop(session):
    head = HEAD.replace("double sum", "float sum")
    source = SourceFile(name="k.cpp", text=head + HONEST + "\n}\n")
    outcome = session.judge(Candidate(kind="cpp", sources=(source,)), "T2").outcome
    assert isinstance(outcome, Accepted), outcome


@pytest.mark.parametrize(
    ("body", "stage", "says"),
    [
        ("int broken(", "build", "error"),
        ("memset(y, 0, 4 * R * C);", "verify", "times the budget"),
        (HONEST.replace("R;", "R - 1;"), "verify", "the output"),
        (HONEST + "y[R * C - 1] = NAN;", "verify", "NaN"),
        (HONEST.replace("softmax(x + r * C, scale", "softmax(x + r * C, x"), "verify", "budget"),
        ("abort();", "verify", "abort() was called"),
        ("((float*)x)[0] = 1;", "verify", "SIGSEGV"),
        ("exit(0);", "verify", "exited with status 0"),
    ],
)
def test_a_wrong_kernel_is_refused_with_a_reason(session, body, stage, says):
    outcome = refusal(session, cpp(body))
    assert outcome.stage == stage
    assert says in outcome.reason


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        # the answer to the first call again and again
        (STATIC + HONEST + "if (calls++) memcpy(y, buffer, 4 * R * C);"
         "else memcpy(buffer, y, 4 * R * C);", "verify"),
        # remembers the parameters it saw first
        ("static float* mine; if (!mine) { mine = (float*)malloc(4 * C);"
         "memcpy(mine, scale, 4 * C); } scale = mine; " + HONEST, "verify"),
        # knows the inputs by a few of their bytes
        ("static float key, *kept; if (kept && key == x[0]) { memcpy(y, kept, 4 * R * C); return; }"
         "key = x[0]; if (!kept) kept = (float*)malloc(4 * R * C);" + HONEST +
         "memcpy(kept, y, 4 * R * C); y[0] = key == x[0] ? 0 : 1;", "verify"),
    ],
)  # fmt: skip
def test_what_it_remembers_does_not_help(session, body, stage):
    for _ in range(3):
        assert refusal(session, cpp(body), "T2").stage == stage


SUBMISSION = """
import torch
from torch import nn

kept = []

class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(cols))

    def forward(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "stage", "says"),
    [
        ("return x", "audit", "view of an input"),
        ("return torch.softmax(x, dim=-1)", "verify", "budget"),
        ("return (torch.softmax(x, dim=-1) * self.weight).half()", "verify", "float16"),
        ("return (torch.softmax(x, dim=-1) * self.weight)[:1]", "verify", "expected"),
        (
            "return (torch.softmax(x, dim=-1) * self.weight).t().contiguous().t()",
            "verify",
            "stride",
        ),
        ("return torch.softmax(x, dim=-1).tolist()", "load", "tensor"),
        ("raise RuntimeError('no idea')", "load", "no idea"),
        ("return (torch.softmax(x, dim=-1) * self.weight).as_subclass(nn.Parameter)", "load", ""),
        (
            """out = torch.softmax(x, dim=-1) * self.weight
        if not kept: kept.append(torch.empty_like(out))
        return kept[0].copy_(out)""",
            "audit",
            "still in use",
        ),
    ],
)
def test_a_submission_that_bends_the_rules_is_refused(session, body, stage, says):
    outcome = refusal(session, python(SUBMISSION.format(body=body)))
    assert says in outcome.reason
    assert outcome.stage in (stage, "verify")


def test_a_submission_may_name_its_parameters_as_it_likes(session):
    body = "return torch.softmax(x, dim=-1) * self.weight"
    verdict = session.judge(python(SUBMISSION.format(body=body)), "T1")
    assert isinstance(verdict.outcome, Accepted), verdict.outcome
    assert any("slow path" in note for note in verdict.provenance.notes)


def test_a_graph_is_judged(session):
    program = {
        "slots": 2,
        "nodes": [
            {"op": "aten.softmax.int", "args": [{"ref": 0}, -1]},
            {"op": "aten.mul.Tensor", "args": [{"ref": 2}, {"ref": 1}]},
        ],
        "outputs": [{"ref": 3}],
    }
    source = SourceFile(name="program.json", text=json.dumps(program))
    verdict = session.judge(Candidate(kind="graph", sources=(source,)), "T1")
    assert isinstance(verdict.outcome, Accepted), verdict.outcome


def test_rewards_are_functions_of_the_verdict(session):
    good = session.judge(cpp(HONEST), "T1")
    bad = session.judge(cpp("memset(y, 0, 4 * R * C);"), "T1")
    lost = good.model_copy(update={"outcome": Inconclusive(reason="the machine")})
    assert [REWARDS[name](bad) for name in ("milestone", "ratio", "log")] == [-1, 0, -1]
    assert all(REWARDS[name](lost) is None for name in REWARDS)
    assert REWARDS["milestone"](good) in (1, 2, 3)


def test_no_process_is_left_behind(tmp_path):
    path = tmp_path / "scaled_softmax.py"
    path.write_text(TASK)
    before = own_children()
    with open_session(find_task(str(path))) as session:
        assert len(own_children()) > len(before)
        session.judge(cpp(HONEST + "if (fork() == 0) { setsid(); pause(); }"), "T1")
    assert own_children() == before


def test_a_process_that_a_candidate_starts_is_seen_where_nothing_prevents_it(session, monkeypatch):
    monkeypatch.setattr(session._nursery, "jail", NO_JAIL)
    outcome = refusal(session, cpp(HONEST + "if (fork() == 0) pause();"))
    assert outcome.stage == "audit"
    assert "started a process" in outcome.reason


def test_a_sandbox_that_cannot_be_set_up_is_nobodys_fault(session, monkeypatch):
    class Unmakeable(Jail):
        unshare_flags = 1

    monkeypatch.setattr(session._nursery, "jail", Unmakeable(True, False, False))
    outcome = session.judge(cpp(HONEST)).outcome
    assert isinstance(outcome, Inconclusive)
    assert "locked up" in outcome.reason
