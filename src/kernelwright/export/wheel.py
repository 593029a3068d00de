"""Writes the winner of a Run as a wheel with its built kernel: it needs torch alone."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sysconfig
import zipfile
from pathlib import Path

from kernelwright.core.verdict import Verdict
from kernelwright.export.package import build_package, package_name
from kernelwright.export.place import require_free, write_new
from kernelwright.export.winner import ExportImpossible, Winner, find_winner
from kernelwright.runs import RunFolder

_VERSION = "0.1.0"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the wheel: equal winners give equal wheels."""


def export_wheel(run: RunFolder, folder: Path) -> tuple[Path, Verdict]:
    """Writes the Run's winner as a new wheel in `folder`, which is made if need be.

    The package in it holds what the single file holds, and the kernel built for processors with
    the features of this one; on others it is compiled, or the reference runs.

    Returns:
        The wheel and the Verdict it carries.

    Raises:
        CompilerMissing: there is no compiler here.
        ExportImpossible: no win, a kind that does not fit, an operator that torch's checks refuse,
            or the wheel exists.
        TaskUnusable: the reference changed since it was judged.
    """
    winner = find_winner(run)
    name = package_name(winner)
    package = build_package(winner)
    files = {f"{name}/{file}": content for file, content in package.files.items()}
    tag = f"py3-none-{_platform()}" if package.native else "py3-none-any"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportImpossible(str(folder), error.strerror or "", "Name a folder.") from None
    target = folder / f"{name}-{_VERSION}-{tag}.whl"
    require_free(target)
    package.require_sound()
    write_new(target, _packed(name, tag, files, winner))
    return target, winner.verdict


def _platform() -> str:
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def _packed(name: str, tag: str, files: dict[str, bytes], winner: Winner) -> bytes:
    """A wheel as the specification has it, its RECORD last."""
    info = f"{name}-{_VERSION}.dist-info"
    pure = "true" if tag.endswith("-any") else "false"
    files = files | {
        f"{info}/METADATA": _metadata(name, winner).encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: kernelwright\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
        ).encode(),
    }
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    return packed.getvalue()


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def _metadata(name: str, winner: Winner) -> str:
    gain = winner.verdict.speedup
    assert gain is not None
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {name}\nVersion: {_VERSION}\n"
        f"Summary: A kernel for {' '.join(winner.verdict.task.split())}, {gain.mid:.2f}x "
        f"[{gain.low:.2f}, {gain.high:.2f}]; verified by kernelwright\n"
        "Requires-Python: >=3.10\nRequires-Dist: torch>=2.11\n"
    )
