"""One Run on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import RunFolderUnusable
from kernelwright.core.run import RunRecord
from kernelwright.core.verdict import Verdict
from kernelwright.runs.candidates import read_candidate, write_candidate

_SCHEMA = RunRecord.model_fields["schema_version"].default
_HEAD, _VERDICTS, _CANDIDATES = "run.json", "verdicts.jsonl", "candidates"


class RunFolder:
    """A run folder opened for reading and appending. Made by `create_run` or `open_run`."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    def append(self, verdict: Verdict) -> None:
        """Adds one line in one write, on disk when this returns.

        Raises:
            RunFolderUnusable: the disk is full or the folder read-only; earlier lines stay whole.
        """
        line = verdict.model_dump_json().encode() + b"\n"
        with _explaining(self.path):
            fd = os.open(
                self.path / _VERDICTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                if _ends_in_mid_line(self.path / _VERDICTS):
                    line = b"\n" + line  # a writer was killed here; its half line stays readable
                if os.write(fd, line) != len(line):
                    raise OSError("the disk is full")
                os.fsync(fd)
            finally:
                os.close(fd)

    def save_candidate(self, candidate: Candidate) -> Path:
        """Writes `candidates/<id>/`, to be called before the Candidate's Verdict is appended."""
        folder = self.path / _CANDIDATES / candidate.id
        with _explaining(self.path):
            folder.parent.mkdir(exist_ok=True)
            write_candidate(candidate, folder)
        return folder

    def load_candidate(self, identity: str) -> Candidate:
        """Reads a stored Candidate. Raises CandidateUnreadable."""
        return read_candidate(self.path / _CANDIDATES / identity)

    def verdicts(self) -> list[Verdict]:
        """All Verdicts in order. A half line, left by a killed writer, is passed over.

        Raises:
            RunFolderUnusable: a whole line is no Verdict.
        """
        return list(self._read())

    def best(self) -> Verdict | None:
        """The win with the largest low end among the highest tier that has a win."""
        wins = [verdict for verdict in self.verdicts() if verdict.win]
        return max(wins, key=lambda v: (v.tier, v.speedup.low if v.speedup else 0.0), default=None)

    def _read(self) -> Iterator[Verdict]:
        path = self.path / _VERDICTS
        if not path.exists():
            return
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if not line:
                continue
            try:
                yield Verdict.model_validate_json(line)
            except ValidationError as error:
                if not line.endswith(b"}"):
                    continue
                raise RunFolderUnusable(
                    f"{path}:{number}",
                    f"this line is no Verdict ({error.errors()[0]['msg']})",
                    "Restore the file or start a new run.",
                ) from None


def create_run(root: Path, record: RunRecord) -> RunFolder:
    """Makes `root/<id>/` with its head. Never overwrites.

    Raises:
        RunFolderUnusable: the folder exists or cannot be made.
    """
    path = root / record.id
    with _explaining(path):
        root.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        partial = path / f".{_HEAD}"
        partial.write_text(record.model_dump_json(indent=2) + "\n")
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
        record = RunRecord.model_validate_json(head.read_bytes())
    except ValidationError as error:
        raise RunFolderUnusable(
            str(head), f"it cannot be read ({error.errors()[0]['msg']})", "Restore the file."
        ) from None
    if record.schema_version > _SCHEMA:
        raise RunFolderUnusable(
            str(head), "it was made by a newer kernelwright", "Upgrade kernelwright."
        )
    return RunFolder(path, record)


class _explaining:  # noqa: N801
    """Turns an OSError into the user's error, with the path and what to do."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, FileExistsError):
            raise RunFolderUnusable(
                str(self._path), "it exists already", "Name another --runs folder."
            ) from None
        if isinstance(error, OSError):
            what = error.strerror or str(error)
            raise RunFolderUnusable(
                str(self._path), f"it cannot be written ({what})", "Choose another --runs folder."
            ) from None


def _ends_in_mid_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
