"""The run folder: what is written comes back, and no accident loses more than one line."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import records
from kernelwright.core import CandidateUnreadable, Inconclusive, Rejected, RunFolderUnusable
from kernelwright.runs import HalfLineSkipped, create_run, open_run, run_id

FAST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BROKEN = Rejected(stage="build", reason='error: expected "}" near {"kind":"x"}')


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, records.run_record())


@pytest.fixture
def as_ordinary_user():
    """Root may write anywhere, so these tests give that up for a while."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)


@FAST
@given(verdicts=st.lists(records.verdicts, max_size=4))
def test_verdicts_come_back_as_they_were(verdicts):
    with tempfile.TemporaryDirectory() as root:
        written = create_run(Path(root), records.run_record())
        for verdict in verdicts:
            written.append(verdict)
        read = open_run(written.path)
        assert read.verdicts() == verdicts
        assert read.record == records.run_record()


@FAST
@given(candidate=records.candidates)
def test_candidates_come_back_with_the_same_identity(candidate):
    if "candidate.json" in [source.name for source in candidate.sources]:
        return
    with tempfile.TemporaryDirectory() as root:
        written = create_run(Path(root), records.run_record())
        written.save_candidate(candidate)
        read = open_run(written.path).load_candidate(candidate.id)
    assert read == candidate
    assert read.id == candidate.id


def test_a_file_cut_at_any_byte_keeps_every_whole_verdict(folder):
    verdicts = [
        records.timed(1.1, 1.2, 1.3),
        records.verdict(BROKEN),
        records.verdict(Inconclusive(reason="\u00e4\u2603")),
    ]
    for verdict in verdicts:
        folder.append(verdict)
    path = folder.path / "verdicts.jsonl"
    content = path.read_bytes()
    ends = [at for at, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends)
        cut_inside = cut - 1 not in ends and cut not in ends and cut > 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert folder.verdicts() == verdicts[:whole]
        assert [w.category for w in caught] == [HalfLineSkipped] * cut_inside, cut


def test_appending_after_a_kill_at_any_byte_loses_only_the_line_in_flight(folder):
    first, second, third = (records.timed(1.0, 1.1, 1.2, name=name) for name in "abc")
    folder.append(first)
    folder.append(second)
    path = folder.path / "verdicts.jsonl"
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    for cut in range(start, len(content)):
        path.write_bytes(content[:cut])
        folder.append(third)
        survives = [second] if cut >= len(content) - 1 else []
        assert folder.verdicts() == [first, *survives, third]


def test_a_corrupt_line_in_the_middle_is_named(folder):
    for name in "abc":
        folder.append(records.timed(1.0, 1.1, 1.2, name=name))
    path = folder.path / "verdicts.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"tier":"T1"', b'"tier":"T9"')
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RunFolderUnusable, match=r"verdicts\.jsonl:2: this line is no Verdict"):
        folder.verdicts()


def test_writers_in_several_processes_keep_each_others_lines_whole(folder):
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_append_many, args=(folder.path, str(n), 25)) for n in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    read = folder.verdicts()
    assert len(read) == 75
    for n in "012":
        mine = [v.outcome.reason for v in read if v.candidate == n]
        assert [reason[:3] for reason in mine] == [f"{at:3}" for at in range(25)]


def _append_many(path: Path, name: str, count: int) -> None:
    folder = open_run(path)
    for at in range(count):
        outcome = Rejected(stage="verify", reason=f"{at:3}" + "x" * 4000)
        folder.append(records.verdict(outcome, name=name))


def test_nothing_is_overwritten(folder, tmp_path):
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(RunFolderUnusable, match="it exists already"):
        create_run(tmp_path, records.run_record(name="layernorm"))
    assert (folder.path / "run.json").read_bytes() == before
    stored = folder.save_candidate(records.candidate(idea="the first idea"))
    folder.save_candidate(records.candidate(idea="another idea"))
    assert '"the first idea"' in (stored / "candidate.json").read_text()
    assert not [path for path in stored.parent.iterdir() if path.name.startswith(".")]


def test_a_full_disk_is_said_and_earlier_lines_stay(folder):
    folder.append(records.timed(1.0, 1.1, 1.2))
    child = multiprocessing.get_context("spawn").Process(target=_fill_up, args=(folder,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert folder.verdicts() == [records.timed(1.0, 1.1, 1.2)]
    (folder.path / "verdicts.jsonl").rename(folder.path / "kept")
    (folder.path / "verdicts.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunFolderUnusable, match="No space left on device"):
        folder.append(records.timed(1.0, 1.1, 1.2))


def _fill_up(folder) -> None:
    """A file-size limit cuts the write short, as a full disk does."""
    import resource
    import signal

    size = (folder.path / "verdicts.jsonl").stat().st_size
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
    with pytest.raises(RunFolderUnusable, match=r"verdicts\.jsonl: it cannot be written"):
        folder.append(records.timed(2.0, 2.1, 2.2))
    with pytest.raises(RunFolderUnusable, match=r"cannot be written \(File too large\)"):
        folder.save_candidate(records.candidate("x" * 5000))
    assert not list((folder.path / "candidates").iterdir())


def test_a_read_only_folder_is_said(as_ordinary_user):
    with tempfile.TemporaryDirectory() as root:
        folder = create_run(Path(root), records.run_record())
        for path in (folder.path, Path(root)):
            path.chmod(0o555)
        try:
            for action in (
                lambda: folder.append(records.timed(1.0, 1.1, 1.2)),
                lambda: folder.save_candidate(records.candidate()),
                lambda: create_run(Path(root), records.run_record(identity="other")),
            ):
                with pytest.raises(RunFolderUnusable, match=r"Permission denied.*--runs"):
                    action()
            assert folder.verdicts() == []
        finally:
            for path in (Path(root), folder.path):
                path.chmod(0o755)


def test_an_unusable_head_is_said(folder, tmp_path):
    with pytest.raises(RunFolderUnusable, match=r"nowhere: it has no run\.json"):
        open_run(tmp_path / "nowhere")
    head = folder.path / "run.json"
    text = head.read_text()
    head.write_text(text.replace('"schema_version": 2', '"schema_version": 3, "novelty": 1'))
    with pytest.raises(RunFolderUnusable, match=r"newer kernelwright\. Upgrade kernelwright"):
        open_run(folder.path)
    for broken in (text[:40], "[]", '{"schema_version": "x"}', '{"schema_version": null}', "\x00"):
        head.write_text(broken)
        with pytest.raises(RunFolderUnusable, match=r"run\.json: it cannot be read"):
            open_run(folder.path)


def test_a_changed_candidate_is_noticed(folder):
    candidate = records.candidate()
    stored = folder.save_candidate(candidate)
    (stored / "k.cpp").write_text("int y;")
    with pytest.raises(CandidateUnreadable, match="changed since it was judged"):
        folder.load_candidate(candidate.id)


def test_best_prefers_the_higher_tier_and_ignores_what_is_no_win(folder):
    assert folder.best() is None
    folder.append(records.timed(3.0, 3.1, 3.2, name="screened"))
    folder.append(records.timed(1.01, 1.5, 2.0, tier="T2", name="too wide"))
    folder.append(records.timed(4.0, 4.5, 5.0, tier="T2", name="no sign test", p=0.2))
    assert folder.best().candidate == "screened"
    folder.append(records.timed(1.3, 1.4, 1.5, tier="T2", name="confirmed"))
    folder.append(records.timed(1.2, 1.9, 2.0, tier="T2", name="lower end"))
    assert folder.best().candidate == "confirmed"


def test_run_ids_are_folder_names():
    import datetime

    day = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    for name in ("softmax", "../../etc", "my model (2)", ""):
        identity = run_id(name, day)
        assert identity.startswith("2026-01-02-")
        assert Path(identity).name == identity
        assert " " not in identity
    assert run_id("a", day) != run_id("a", day)


def test_what_a_session_measured_comes_back(folder):
    folder.append_ground(records.GROUND)
    folder.append_ground(records.GROUND)
    assert open_run(folder.path).grounds() == [records.GROUND] * 2
    (folder.path / "grounds.jsonl").write_text('{"task": 3}\n')
    with pytest.raises(RunFolderUnusable, match=r"grounds\.jsonl:1: this line is no Ground"):
        folder.grounds()
