"""What the search yields, in which order, and what it does with the Verdicts it sees."""

import dataclasses
import hashlib
import json
import math

import pytest

from kernelwright.backends.graph_program import parse
from kernelwright.core import (
    Accepted,
    Correctness,
    Interval,
    Measured,
    NotTimed,
    Provenance,
    Rejected,
    Task,
    Verdict,
)
from kernelwright.propose import PROPOSERS, Problem
from kernelwright.propose.search.proposer import SearchProposer
from kernelwright.tasks.reference import ReferenceSpec, load_reference
from kernelwright.tasks.slots import read_signature

HEAD = "import torch\nfrom torch import nn\n"
TAIL = "\ndef get_init_inputs(): return []\n"
NORM = """
class Model(nn.Module):
    def forward(self, x): return torch.softmax(x + 1.0, -1)
def get_inputs(): return [torch.randn(64, 96)]
"""
SUMMED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 48)
    def forward(self, x): return self.linear(x).sum(1, keepdim=True)
def get_inputs(): return [torch.randn(16, 32)]
"""
NOTHING = """
class Model(nn.Module):
    def forward(self, x, y): return torch.sin(x @ y)
def get_inputs(): return [torch.randn(16, 32), torch.randn(32, 8)]
"""


@pytest.fixture
def problem(tmp_path):
    def of(text):
        path = tmp_path / f"t{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
        path.write_text(HEAD + text + TAIL)
        reference = load_reference(ReferenceSpec("file", str(path)))
        origin = {"kind": "file", "path": str(path)}
        task = Task.model_validate({"name": "t", "origin": origin, "source_hash": ""})
        return Problem(task, reference, {}, read_signature(reference, {}))

    return of


PROVENANCE = Provenance(
    sandbox="D", certified=False, precision="native", kernelwright="0", torch="2", compiler="",
    machine="", threads=1, seed_commitment="",
)  # fmt: skip
RIGHT = Correctness(
    calls=1, shapes=("",), families=("",), weight_sets=1, error_over_budget=0.1,
    error_over_reference=1.0, oracle="strong",
)  # fmt: skip


def verdict(candidate, gain):
    """A T1 Verdict: rejected where `gain` is 0, untimed where it is negative."""
    if gain == 0:
        outcome = Rejected(stage="verify", reason="wrong")
    else:
        timing = NotTimed()
        if gain > 0:
            interval = Interval(gain * 0.9, gain, gain * 1.1)
            timing = Measured(
                interval=interval, baseline="eager", p_faster=0.001, resolution=0.01, against=(),
                launch_bound=False,
            )  # fmt: skip
        outcome = Accepted(correctness=RIGHT, timing=timing)
    return Verdict(
        task="t", candidate=candidate.id, candidate_kind=candidate.kind, tier="T1",
        outcome=outcome, provenance=PROVENANCE, cost_cpu_s=1.0, wall_s=1.0,
    )  # fmt: skip


def judged(problem, gain_of):
    """Runs the search against fixed gains; returns candidates in the order they were yielded."""
    history, order = [], []
    for candidate in SearchProposer().propose(problem, history):
        order.append(candidate)
        history.append(verdict(candidate, gain_of(len(order), candidate)))
    return order


def test_one_template_of_the_rewritten_form_comes_first_and_its_graph_next(problem):
    candidates = list(SearchProposer().propose(problem(SUMMED), []))
    assert [c.kind for c in candidates[:3]] == ["cpp", "graph", "cpp"]
    assert "sums.h" in [source.name for source in candidates[0].sources]
    assert "reduce-linear" in candidates[1].idea
    called = [str(call.target) for call in parse(candidates[1].sources[0].text, 3).calls]
    assert called.count("aten.sum.dim_IntList") == 2
    assert called[-1] == "aten.linear.default"


def test_rewritten_and_given_forms_are_both_tried_and_no_candidate_twice(problem):
    candidates = list(SearchProposer().propose(problem(NORM), []))
    assert len({c.id for c in candidates}) == len(candidates)
    ideas = [c.idea for c in candidates if c.kind == "cpp"]
    assert any(idea.startswith("rewritten") for idea in ideas)
    assert any(not idea.startswith("rewritten") for idea in ideas)


def test_a_reference_with_no_idea_for_it_ends_the_search(problem):
    notes = []
    given = dataclasses.replace(problem(NOTHING), note=notes.append)
    assert list(SearchProposer().propose(given, [])) == []
    assert len(notes) == 1
    assert notes[0].startswith("the search")


def test_no_candidate_knows_the_task(problem):
    for candidate in SearchProposer().propose(problem(NORM), []):
        text = json.dumps([source.text for source in candidate.sources])
        assert "Model" not in text
        assert "get_inputs" not in text


def test_the_better_half_is_measured_again_until_one_is_left(problem):
    first = len(list(SearchProposer().propose(problem(NORM), [])))
    favourite = first - 2
    order = judged(problem(NORM), lambda at, c: 2.0 if at == favourite else 1.0 + at / 1000)
    again = order[first:]
    best = order[favourite - 1]
    assert again[0].id == best.id
    assert again[-1].id == best.id
    assert [c.id for c in again].count(best.id) == math.ceil(math.log2(first))
    assert len(again) <= first + math.ceil(math.log2(first))


def test_rejected_and_untimed_candidates_are_not_tried_again(problem):
    order = judged(problem(NORM), lambda at, c: 0 if at % 2 else -1)
    assert len({c.id for c in order}) == len(order)


def test_one_rejection_outweighs_every_gain(problem):
    first = len(list(SearchProposer().propose(problem(NORM), [])))
    seen = []

    def gain(at, candidate):
        seen.append(candidate.id)
        return 0 if at > first and candidate.id == seen[2] else 3.0 if at == 3 else 1.1

    order = judged(problem(NORM), gain)
    assert [c.id for c in order].count(seen[2]) == 2


def test_the_search_is_lazy(problem):
    found = SearchProposer().propose(problem(SUMMED), [])
    assert next(found).kind == "cpp"
    assert next(found).kind == "graph"


def test_the_registry_makes_a_search():
    assert isinstance(PROPOSERS["search"](), SearchProposer)
