"""What `explain` says of each kind of Verdict."""

import json

import pytest
from hypothesis import given

import records
from kernelwright.cli.explain import VerdictNotFound, find_verdict, lines_of
from kernelwright.core import Rejected
from kernelwright.runs import create_run


@given(records.verdicts)
def test_every_verdict_can_be_explained(verdict):
    lines = list(lines_of(verdict))
    assert verdict.candidate in lines[0]
    assert len(lines) > 1


@given(records.verdicts)
def test_what_judge_prints_is_read_back(tmp_path_factory, verdict):
    path = tmp_path_factory.mktemp("out") / "verdict.json"
    fields = verdict.model_dump(mode="json") | {"win": verdict.win}
    path.write_text("loading the task\n" + json.dumps(fields) + "\n")
    assert find_verdict(path).candidate == verdict.candidate


def test_a_rejection_says_what_would_pass():
    verdict = records.verdict(Rejected(stage="verify", reason="off by 3"))
    text = "\n".join(lines_of(verdict))
    assert "gate verify: off by 3" in text
    assert "to pass: Compare with the reference" in text


def test_a_candidate_of_a_run_has_its_last_verdict(tmp_path):
    folder = create_run(tmp_path, records.run_record())
    verdict = records.timed(0.9, 1.0, 1.1)
    folder.append(verdict)
    assert find_verdict(folder.candidate_path(verdict.candidate)) == verdict
    with pytest.raises(VerdictNotFound, match="no verdict on it"):
        find_verdict(folder.candidate_path("0123456789ab"))


@pytest.mark.parametrize("text", ["", "no json", "{}", "[1]", "3"])
def test_a_file_without_a_verdict_is_refused(tmp_path, text):
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(VerdictNotFound):
        find_verdict(tmp_path / "v.json")
