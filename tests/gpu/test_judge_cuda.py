"""The judge on a CUDA device: what is right passes, what is wrong does not, and nothing sticks."""

import pytest
from kernels import HONEST, UNSYNCED, softmax, submission

from kernelwright.core import Accepted, Rejected
from kernelwright.judge import open_session
from kernelwright.tasks.catalog import find_task


@pytest.fixture(scope="module")
def session():
    task = find_task("softmax", device="cuda")
    with open_session(task) as session:
        yield session


@pytest.fixture(autouse=True)
def judges_on(session):
    """Whatever the test before did, the next honest kernel is judged right."""
    yield
    assert isinstance(session.judge(softmax(), "T1").outcome, Accepted)


@pytest.mark.parametrize("candidate", [softmax(), submission(HONEST)], ids=["cuda", "python"])
def test_an_honest_kernel_is_accepted_behind_all_walls(session, candidate):
    verdict = session.judge(candidate, "T2")
    assert isinstance(verdict.outcome, Accepted), verdict.outcome
    assert verdict.provenance.sandbox == "A"


@pytest.mark.parametrize(
    "bug",
    [
        {"before": "if (blockIdx.x == gridDim.x - 1) return;"},
        {"before": "sum *= 1.0001f;"},
        {"before": "cols -= 1;"},
        {"before": "((float*)x)[blockIdx.x] = 0;"},
    ],
    ids=["a row left out", "off by 1e-4", "a column left out", "writes its input"],
)
def test_a_wrong_kernel_is_refused(session, bug):
    verdict = session.judge(softmax(**bug), "T1")
    assert isinstance(verdict.outcome, Rejected), verdict.outcome
    assert verdict.outcome.stage == "verify"


@pytest.mark.parametrize(
    "breaks",
    [
        {"before": "*(int*)8 = 1;"},
        {"before": 'asm("trap;");'},
        {"after": "return 719;"},
        {"after": "for (;;) ;"},
    ],
    ids=["illegal address", "trap", "reports an error", "hangs on the host"],
)
def test_a_broken_kernel_is_refused_and_nothing_sticks(session, breaks):
    assert isinstance(session.judge(softmax(**breaks), "T1").outcome, Rejected)


def test_a_reply_before_the_work_is_done_earns_nothing(session):
    verdict = session.judge(submission(UNSYNCED), "T2")
    assert not verdict.win
