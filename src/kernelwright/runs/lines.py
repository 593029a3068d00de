"""Files of one record per line, which only grow: a kill loses at most the line in flight."""

from __future__ import annotations

import fcntl
import os
import warnings
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from kernelwright.core.errors import RunFolderUnusable
from kernelwright.core.record import Record
from kernelwright.runs.durable import explaining

_R = TypeVar("_R", bound=Record)


class HalfLineSkipped(UserWarning):
    """The last line of a file is cut: its writer was killed. Its record is lost."""


def append_record(path: Path, record: Record) -> None:
    """Adds one line in one write, on disk when this returns.

    Raises:
        RunFolderUnusable: the disk is full or the folder read-only; earlier lines stay whole.
    """
    line = record.model_dump_json().encode() + b"\n"
    with explaining(path):
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            _append_line(fd, line, type(record))
        finally:
            os.close(fd)


def read_records(path: Path, kind: type[_R]) -> list[_R]:
    """All records in order; none if there is no file. A cut last line is passed over.

    Raises:
        RunFolderUnusable: a whole line is no such record, or the file cannot be read.
    """
    try:
        *whole, last = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"it cannot be read ({error.strerror or error})"
        raise RunFolderUnusable(str(path), what, "Restore the file.") from None
    found = [_parse(path, number, line, kind) for number, line in enumerate(whole, 1)]
    if last:
        try:
            found.append(kind.model_validate_json(last))
        except ValidationError:
            what = f"{path}: the last line is cut and was skipped"
            warnings.warn(what, HalfLineSkipped, stacklevel=3)
    return found


def _append_line(fd: int, line: bytes, kind: type[Record]) -> None:
    """One write. Takes away the cut line of a killed writer, and its own if the disk is full."""
    end = _end_of_last_line(fd, kind)
    if end is None:
        line = b"\n" + line  # all of the line but its end was written
    elif end < os.fstat(fd).st_size:
        os.ftruncate(fd, end)
    before = os.fstat(fd).st_size
    written = os.write(fd, line)
    if written != len(line):
        os.ftruncate(fd, before)
        raise OSError("the disk is full")
    os.fsync(fd)


def _end_of_last_line(fd: int, kind: type[Record]) -> int | None:
    """Where the last whole line ends; None where only the line end of a record is missing."""
    size = os.fstat(fd).st_size
    tail, at = b"", size
    while at > 0 and b"\n" not in tail:
        step = min(at, 1 << 16)
        at -= step
        tail = os.pread(fd, step, at) + tail
    last = tail.rpartition(b"\n")[2]
    if last:
        try:
            kind.model_validate_json(last)
            return None
        except ValidationError:
            return size - len(last)
    return size


def _parse(path: Path, number: int, line: bytes, kind: type[_R]) -> _R:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        what = f"this line is no {kind.__name__} ({error.errors()[0]['msg']})"
        raise RunFolderUnusable(
            f"{path}:{number}", what, "Restore the file or start a new run."
        ) from None
