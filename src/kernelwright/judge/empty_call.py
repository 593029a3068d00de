"""What a call costs that computes nothing, and what native arms are charged for it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from kernelwright.backends import Artefact, CppBackend, NativeArtefact, PythonArtefact
from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.core.errors import CompilerMissing
from kernelwright.judge.measure import Arm, Sample
from kernelwright.judge.station import Station

_CALLS = 30
_SOURCE = """#include "kernelwright.h"
extern "C" void kernel(const kw_tensor*, int, const kw_tensor*, int) {}
"""


def measure_empty_call(station: Station, cache: Path) -> float:
    """Times arms that compute nothing and sets what native ones are charged.

    A native kernel runs without Python, so that its author finds nothing to patch; but its user
    calls it from Python, as the baselines are. The difference between the two empty calls (one by
    ctypes from Python, as an exported kernel is called, one by the native runner), at this
    Task's sizes and with the caches as cold as they are in every call, is therefore added to each
    native time. It can only lower a claim.

    Returns:
        95th percentile of the Python arm's empty call, ns.
    """
    outputs = [asdict(output) for output in station.signature.outputs]
    native = _build(cache)
    library = str(native.library) if native is not None else None
    python = PythonArtefact(
        "kernelwright.backends.empty_call:from_python", {"outputs": outputs, "library": library}
    )
    artefacts: dict[str, Artefact] = {"python": python}
    if native is not None:
        artefacts["native"] = native
    times = _interleave(station, artefacts)
    if times["python"] and times.get("native"):
        difference = np.median(times["python"]) - np.median(times["native"])
        station.native_charge_ns = max(0, int(difference))
    return float(np.percentile(times["python"], 95)) if times["python"] else float("inf")


def _interleave(station: Station, artefacts: dict[str, Artefact]) -> dict[str, list[int]]:
    times: dict[str, list[int]] = {name: [] for name in artefacts}
    arms = {name: station.spawn(name, built, trusted=True) for name, built in artefacts.items()}
    one = station.decoy
    for _ in range(_CALLS):
        for name, arm in arms.items():
            run = station.bench.run_primed(arm, one, keep=False) if isinstance(arm, Arm) else None
            if isinstance(run, Sample):
                times[name].append(run.wall_ns)
    for arm in arms.values():
        if isinstance(arm, Arm):
            arm.close()
    return times


def _build(cache: Path) -> NativeArtefact | None:
    """A native kernel that returns at once; None without a compiler, when none can be judged."""
    source = SourceFile(name="kernel.cpp", text=_SOURCE)
    try:
        built = CppBackend().build(Candidate(kind="cpp", sources=(source,)), cache)
    except CompilerMissing:
        return None
    return built if isinstance(built, NativeArtefact) else None
