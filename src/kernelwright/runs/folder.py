"""One Run on disk."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CandidateUnreadable, RunFolderUnusable
from kernelwright.core.ground import Ground
from kernelwright.core.run import RunRecord
from kernelwright.core.verdict import Verdict
from kernelwright.runs.candidates import read_candidate, write_candidate
from kernelwright.runs.durable import explaining, write_durably
from kernelwright.runs.lines import append_record, read_records

_SCHEMA = RunRecord.model_fields["schema_version"].default
_HEAD, _VERDICTS, _GROUNDS = "run.json", "verdicts.jsonl", "grounds.jsonl"
_CANDIDATES = "candidates"


class RunFolder:
    """A run folder opened for reading and appending. Made by `create_run` or `open_run`."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    @contextmanager
    def lock(self) -> Generator[None]:
        """Holds the folder for one writer; the system lets go of it when the process ends.

        Raises:
            RunFolderUnusable: another process is writing to it.
        """
        with explaining(self.path):
            fd = os.open(self.path / _HEAD, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            what = "another kernelwright is at work in it"
            raise RunFolderUnusable(str(self.path), what, "Wait for it, or end it.") from None
        finally:
            os.close(fd)

    def append(self, verdict: Verdict) -> None:
        """Adds a Verdict in one write, on disk when this returns.

        Raises:
            RunFolderUnusable: the disk is full or the folder read-only; earlier lines stay whole.
        """
        append_record(self.path / _VERDICTS, verdict)

    def append_ground(self, ground: Ground) -> None:
        """Adds what a session's Candidates are measured against; raises as `append` does."""
        append_record(self.path / _GROUNDS, ground)

    def save_candidate(self, candidate: Candidate) -> Path:
        """Writes `candidates/<id>/`, to be called before the Candidate's Verdict is appended.

        Raises:
            RunFolderUnusable: the disk is full or the folder read-only.
        """
        folder = self.candidate_path(candidate.id)
        with explaining(folder):
            write_candidate(candidate, folder)
        return folder

    def load_candidate(self, identity: str) -> Candidate:
        """Reads a stored Candidate.

        Raises:
            CandidateUnreadable: it is missing, or was changed since it was judged.
        """
        folder = self.candidate_path(identity)
        candidate = read_candidate(folder)
        if candidate.id != identity:
            raise CandidateUnreadable(str(folder), "it was changed since it was judged")
        return candidate

    def candidate_path(self, identity: str) -> Path:
        """Where the Candidate of that identity lies."""
        return self.path / _CANDIDATES / identity

    def verdicts(self) -> list[Verdict]:
        """All Verdicts in order. A cut last line is passed over with a HalfLineSkipped warning.

        Raises:
            RunFolderUnusable: a whole line is no Verdict.
        """
        return read_records(self.path / _VERDICTS, Verdict)

    def grounds(self) -> list[Ground]:
        """What each session measured before its first Candidate; raises as `verdicts` does."""
        return read_records(self.path / _GROUNDS, Ground)

    def best(self) -> Verdict | None:
        """See `best_win`."""
        return best_win(self.verdicts())


def best_win(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Among the wins of the highest tier that has one, the one with the largest low end."""
    return best_timed(verdict for verdict in verdicts if verdict.win)


def best_timed(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Of the highest tier with a timed Verdict, the one with the largest low end, win or not."""
    timed = [(v.tier, v.speedup.low, v) for v in verdicts if v.speedup is not None]
    return max(timed, key=lambda one: one[:2], default=(None, None, None))[2]


def run_id(task: str, started: datetime.datetime) -> str:
    """A new folder name: date, task, and a few random digits."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip("-.")[:60]
    return f"{started:%Y-%m-%d}-{name or 'task'}-{secrets.token_hex(3)}"


def create_run(root: Path, record: RunRecord) -> RunFolder:
    """Makes `root/<id>/` with its head. Never overwrites.

    Raises:
        RunFolderUnusable: the folder exists or cannot be made.
    """
    path = root / record.id
    with explaining(path):
        root.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        partial = path / f".{_HEAD}"
        write_durably(partial, record.model_dump_json(indent=2) + "\n")
        partial.rename(path / _HEAD)
    return RunFolder(path, record)


def open_run(path: Path) -> RunFolder:
    """Opens a run folder.

    Raises:
        RunFolderUnusable: it is missing, has no readable head, or was made by a newer version.
    """
    head = path / _HEAD
    if not head.is_file():
        raise RunFolderUnusable(str(path), f"it has no {_HEAD}", "Name a folder under runs/.")
    try:
        fields = json.loads(head.read_bytes())
        # Before the rest: a newer head has fields that this version does not know.
        if isinstance(fields, dict) and int(fields.get("schema_version", 0)) > _SCHEMA:
            raise RunFolderUnusable(
                str(head), "it was made by a newer kernelwright", "Upgrade kernelwright."
            )
        record = RunRecord.model_validate_json(head.read_bytes())
    except ValidationError as error:
        raise _unreadable(head, error.errors()[0]["msg"]) from None
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(head, str(error)) from None
    return RunFolder(path, record)


def _unreadable(path: Path, why: str) -> RunFolderUnusable:
    return RunFolderUnusable(str(path), f"it cannot be read ({why})", "Restore the file.")
