"""A submission's worker is locked up before its file is imported."""

from pathlib import Path

import pytest

from kernelwright.core import Accepted, Candidate, Rejected, SourceFile
from kernelwright.judge import open_session
from kernelwright.sandbox import probe_jail
from kernelwright.tasks.catalog import find_task

TASK = Path(__file__).resolve().parents[1] / "data" / "double.py"
HEAD = "import os, subprocess, sys, time\nimport torch\nfrom torch import nn\n"
MODEL = "class ModelNew(nn.Module):\n    def forward(self, x):\n        return x * 2.0\n"
needs_all = pytest.mark.skipif(probe_jail().tier != "A", reason="this machine has no tier A")


@pytest.fixture(scope="module")
def session():
    with open_session(find_task(str(TASK)), seed=1) as opened:
        yield opened


def submission(text):
    return Candidate(kind="python", sources=(SourceFile(name="new.py", text=HEAD + text),))


@needs_all
def test_an_honest_one_is_accepted_and_says_where_it_ran(session):
    verdict = session.judge(submission(MODEL))
    assert isinstance(verdict.outcome, Accepted)
    assert verdict.provenance.sandbox == "A"


@needs_all
@pytest.mark.parametrize(
    ("act", "denied"),
    [
        ("open('{file}', 'a')", "PermissionError"),
        ("open('{file}')", "PermissionError"),
        ("os.listdir('{folder}')", "PermissionError"),
        ("__import__('socket').socket()", "PermissionError"),
        ("os.kill({judge}, 0)", "ProcessLookupError"),
        ("os.sched_setaffinity({judge}, {{0}})", "ProcessLookupError"),
        ("open('/proc/{judge}/mem', 'rb')", "PermissionError"),
        ("__import__('ctypes').CDLL(None, use_errno=True).unshare(1 << 28) and 1 / 0", "ZeroDiv"),
    ],
)
def test_while_it_is_imported_it_can_reach_nothing(session, tmp_path, act, denied):
    import os

    file = tmp_path / "file"
    file.write_text("")
    text = act.format(file=file, folder=tmp_path, judge=os.getpid())
    verdict = session.judge(submission(f"{text}\n{MODEL}"))
    assert isinstance(verdict.outcome, Rejected)
    assert verdict.outcome.stage == "load"
    assert denied in verdict.outcome.reason


@needs_all
def test_it_may_start_programs_that_end_and_write_where_it_is(session):
    text = "open('note', 'w').write('x')\nassert subprocess.run(['/bin/true']).returncode == 0\n"
    assert isinstance(session.judge(submission(text + MODEL)).outcome, Accepted)


def test_a_process_that_stays_is_found_in_the_first_call(session):
    text = "if os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\n"
    outcome = session.judge(submission(text + MODEL)).outcome
    assert isinstance(outcome, Rejected)
    assert "process" in outcome.reason
