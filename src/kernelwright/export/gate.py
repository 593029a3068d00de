"""torch's checks of the exported operator, before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelwright.export.winner import ExportImpossible

_TIMEOUT_S = 300
_PASSED_ON = ("PATH", "HOME", "CXX", "CC", "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
_CHECK = "import exported; exported.check_operator()"


def require_sound_operator(text: str, beside: dict[str, bytes] | None = None) -> None:
    """Imports the exported text and runs `torch.library.opcheck`, both in another process.

    Args:
        text: the module to be exported.
        beside: files that will lie beside it, by name.

    Raises:
        ExportImpossible: it does not import without its neighbours, or a check fails.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-export-") as name:
        folder = Path(name)
        for other, content in (beside or {}).items():
            (folder / other).write_bytes(content)
        (folder / "exported.py").write_text(text)
        env = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", _CHECK],
                cwd=folder,
                env=env | {"XDG_CACHE_HOME": name},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failed(f"it took more than {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise _failed(lines[-1][:300])


def _failed(why: str) -> ExportImpossible:
    where = "the exported kernel"
    return ExportImpossible(
        where, f"it does not work as a torch operator: {why}", "Nothing was written."
    )
