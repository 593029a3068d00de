"""One judge per device: another one's kernels would be timed with ours."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import torch

from kernelwright.core.errors import DeviceRefused
from kernelwright.core.task import DeviceKind

_WAIT_S = 600.0
_LOOK_S = 0.5


@contextmanager
def hold_device(kind: DeviceKind, tell: Callable[[str], None]) -> Generator[None]:
    """Keeps the first CUDA device for this process; does nothing for the host.

    Args:
        kind: of the Task.
        tell: told when it has to wait.

    Raises:
        DeviceRefused: torch sees no device, or another judge keeps it for ten minutes.
    """
    if kind == "cpu":
        yield
        return
    if not torch.cuda.is_available():
        built = "torch sees none" if torch.version.cuda else "this torch is built without CUDA"
        raise DeviceRefused(built)
    path = Path(tempfile.gettempdir(), "kernelwright-cuda-0.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _lock(fd, path, tell)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, path: Path, tell: Callable[[str], None]) -> None:
    deadline = time.monotonic() + _WAIT_S
    told = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DeviceRefused(f"another judge has kept it for long ({path})") from None
        else:
            return
        if not told:
            tell("waiting for the device: another judge uses it")
            told = True
        time.sleep(_LOOK_S)
