"""One Task at one shape, ready to judge: inputs, oracle, baselines, resolution.

Baseline workers live here, so that one Verdict does not pay for the next one's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernelwright.backends import Artefact, NativeArtefact, PythonArtefact
from kernelwright.judge.defences import ALL_DEFENCES, Defences
from kernelwright.judge.measure import (
    Arm,
    Bench,
    DeviceBench,
    Draw,
    Fault,
    PairedTimes,
    Sample,
    compare_arms,
    describe,
)
from kernelwright.judge.measure.roofline import (
    Roofline,
    count_flops,
    device_roofline,
    measure_roofline,
)
from kernelwright.judge.pool import Pool
from kernelwright.judge.verify.compare import Yardstick, measure_yardstick
from kernelwright.judge.verify.oracle import Oracle
from kernelwright.judge.verify.sanity import SanityReport, sanity_gate, tells_work_from_none
from kernelwright.sandbox import Failure, Limits, Nursery
from kernelwright.tasks.draw import FAMILIES, SPECIAL_VALUES, Drawer
from kernelwright.tasks.reference import Reference
from kernelwright.tasks.slots import Signature, read_signature

EAGER, COMPILE, MAX_AUTOTUNE = "eager", "compile", "compile max-autotune"
_ARM_OF = {
    EAGER: ("kernelwright.backends.arms:eager", None),
    COMPILE: ("kernelwright.backends.arms:compiled", "default"),
    MAX_AUTOTUNE: ("kernelwright.backends.arms:compiled", "max-autotune-no-cudagraphs"),
}
_RESOLUTION_PAIRS = 50
_PRIMED_BELOW_NS = 20_000_000
_NO_OP_SOURCE = """#include "kernelwright.h"
extern "C" void kernel(const kw_tensor*, int, const kw_tensor*, int) {}
"""


@dataclass(frozen=True, slots=True)
class BaselineFailed:
    """A baseline that cannot run or disagrees with the oracle; the others still count."""

    name: str
    reason: str


class BaselineBroke(Exception):
    """A baseline failed in the middle of a trial: the machine's fault, Inconclusive."""


class Station:
    """Everything that a Verdict at one shape needs and that no Candidate may touch."""

    def __init__(
        self,
        nursery: Nursery,
        reference: Reference,
        shape: dict[str, int],
        *,
        limits: Limits,
        key: int,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        self.reference = reference
        self.shape = shape
        working = _WorkingBytes(reference.device)
        self.signature: Signature = read_signature(reference, shape)
        working_bytes = working.peak()
        self.oracle = Oracle(reference, shape, self.signature)
        self.limits = limits
        self.defences = defences
        self._nursery = nursery
        self._rng = np.random.Generator(np.random.Philox(key=key ^ 0x9E3779B97F4A7C15))
        self._drawer = Drawer(reference, shape, self.signature, key=key)
        self._counter = 0
        self._weights = 0
        self._edge_weights = False
        """Whether the latest redraw belongs to another family than the nominal one."""
        self._baselines: dict[str, Arm | BaselineFailed] = {}
        self._evidence: dict[str, bool] = {}
        self.native_charge_ns = 0
        """Added to native times; see `empty_call`."""
        seed = int(self._rng.integers(2**63))
        self.bench: Bench | DeviceBench
        if reference.device.type == "cuda":
            self.bench = DeviceBench(
                nursery,
                self.signature,
                limits,
                seed=seed,
                working_bytes=working_bytes,
                defences=defences,
            )
        else:
            self.bench = Bench(nursery, self.signature, limits, seed=seed, defences=defences)
        special = [SPECIAL_VALUES] if reference.special_values else []
        self.families: list[str] = [*FAMILIES, *special] if defences.families else ["nominal"]
        """The input families that this Task is judged on."""
        self.pool = Pool(self.fresh, self.families, self._rng)
        self.decoy = self.fresh("nominal")
        """Arms load, warm up and are primed on it; no call on it is timed or judged."""
        self.bench.load(self.decoy)

    def fresh(self, family: str) -> Draw:
        """New numbers that no worker has seen; parameters are redrawn every other time or so."""
        if self._counter and not self.defences.fresh_inputs:
            return self.decoy
        self._counter += 1
        # A family may have parameters of its own kind: one number of a redraw means one of them.
        renewed = family != "nominal" or self._edge_weights or self._rng.random() < 0.5
        if renewed and self.defences.redrawn_weights:
            self._weights += 1
            self._edge_weights = family != "nominal"
        values = self._drawer.draw(family, counter=self._counter, weights=self._weights)
        return Draw(family, values, self._weights)

    def truth(self, one: Draw) -> list[Any]:
        """The fp64 oracle's outputs, computed once per draw, after the reply it judges."""
        if one.truth is None:
            one.truth = self.oracle(one.values)
        return one.truth

    def applies(self, one: Draw) -> bool:
        """Whether the Task is defined on these inputs: it says so, or the truth is finite."""
        truth = self.truth(one)
        return one.family == SPECIAL_VALUES or all(
            not t.is_floating_point() or all_finite(t) for t in truth
        )

    def reference_outputs(self, one: Draw) -> list[Any] | Fault:
        """What eager computes on the draw: its error is the budget."""
        if one.reference is None:
            arm = self.baseline(EAGER)
            if isinstance(arm, BaselineFailed):
                return Fault("baseline", arm.reason)
            sample = self.bench.run(arm, one, keep=True)
            if isinstance(sample, Fault):
                self._baselines[EAGER] = BaselineFailed(EAGER, sample.reason)
                return sample
            one.reference = sample.outputs
        assert one.reference is not None
        return one.reference

    def yardstick(self, one: Draw) -> Yardstick:
        """What the reference's own error on the draw makes the budget, computed once."""
        if one.yardstick is None:
            reference = self.reference_outputs(one)
            if isinstance(reference, Fault):
                raise BaselineBroke(reference.reason)
            one.yardstick = measure_yardstick(self.truth(one), reference)
        return one.yardstick

    def probe_oracle(self, precision: str) -> SanityReport:
        """Whether outputs that ignore the work would pass; see `verify.sanity`."""

        def eager(values: list[Any]) -> list[Any]:
            outputs = self.reference_outputs(Draw("sanity", values, -1))
            if isinstance(outputs, Fault):
                raise BaselineBroke(outputs.reason)
            return outputs

        key = int(self._rng.integers(2**63))
        drawer = Drawer(self.reference, self.shape, self.signature, key=key)
        return sanity_gate(drawer, self.signature, self.oracle, eager=eager, precision=precision)

    def is_evidence(self, one: Draw, precision: str) -> bool:
        """Whether passing on this draw's family means anything; decided once per family."""
        if one.family not in self._evidence:
            reference = self.reference_outputs(one)
            assert not isinstance(reference, Fault)
            self._evidence[one.family] = tells_work_from_none(
                self.truth(one), reference, yardstick=self.yardstick(one), precision=precision
            )
        return self._evidence[one.family]

    def spawn(
        self, name: str, artefact: Artefact, *, trusted: bool = False, fenced: bool = False
    ) -> Arm | Failure:
        """Starts a worker for an artefact on this station's inputs.

        Args:
            name: of the arm.
            artefact: what it serves.
            trusted: a baseline, that may return views; it runs in a plain process.
            fenced: a native one's buffers end at a fence: for calls that no one times.
        """
        arm = self.bench.spawn(
            name,
            artefact,
            {} if isinstance(artefact, NativeArtefact) else self.config(artefact.config),
            trusted=trusted,
            jailed=None if trusted else self._readable(artefact),
            fenced=fenced and self.defences.fence,
            charge_ns=self.native_charge_ns,
        )
        if isinstance(arm, Arm):
            arm.worker.freezes = trusted or self.defences.freeze
        return arm

    def _readable(self, artefact: Artefact) -> tuple[Path, ...] | None:
        """A submission's worker reads its own file and the reference's, with its neighbours."""
        if isinstance(artefact, NativeArtefact) or artefact.reads is None:
            return None
        target = self.reference.spec.target
        return (*artefact.reads, *([Path(target).parent] if target.endswith(".py") else []))

    def baseline(self, name: str) -> Arm | BaselineFailed:
        """The warm worker of a baseline, started at its first use."""
        if name not in self._baselines:
            self._baselines[name] = self._start_baseline(name)
        return self._baselines[name]

    def add_baseline(self, name: str, artefact: Artefact) -> Arm | BaselineFailed:
        """Adds a kernel of the user's own choice to the baselines, warm like the others."""
        self._baselines[name] = self._warm_baseline(name, artefact)
        return self._baselines[name]

    def baselines(self, *names: str) -> list[Arm]:
        """Those of the named baselines that run."""
        arms = [self.baseline(name) for name in names]
        return [arm for arm in arms if isinstance(arm, Arm)]

    @property
    def label(self) -> str:
        """Its shape in one word, as Verdicts name it."""
        return "x".join(str(size) for size in self.shape.values()) or "as given"

    def settle(self) -> Fault | None:
        """Decides from eager's own time whether timed calls are primed."""
        eager = self.baseline(EAGER)
        if isinstance(eager, BaselineFailed):
            return Fault("baseline", eager.reason)
        runs = [self.bench.run(eager, self.decoy, keep=False) for _ in range(3)]
        for run in runs:
            if isinstance(run, Fault):
                return run
        walls = [run.wall_ns for run in runs if isinstance(run, Sample)]
        short = min(walls) < _PRIMED_BELOW_NS and self.bench.can_prime()
        self.bench.prime = self.decoy if short else None
        return None

    def measure_resolution(self) -> PairedTimes | Fault:
        """Times the reference against itself in two processes: what this machine can resolve."""
        again = self._start_baseline(EAGER)
        eager = self.baseline(EAGER)
        if isinstance(again, BaselineFailed) or isinstance(eager, BaselineFailed):
            return Fault(
                "baseline", next(x.reason for x in (again, eager) if not isinstance(x, Arm))
            )
        again.name = "eager again"
        try:
            return compare_arms(
                self.bench, eager, again, draws=self.cycling(), pairs=_RESOLUTION_PAIRS
            )
        finally:
            again.close()

    def cycling(self) -> Callable[[int], Draw]:
        """Draws for trusted arms, which cannot remember: a few pooled ones, over and over."""
        few = list(islice(self.pool.timed(), 4))
        return lambda index: few[index % len(few)]

    def roofline(self) -> Roofline:
        """Bytes, flops and this machine's rates."""
        outputs = sum(layout.nbytes for layout in self.bench.outputs)
        moved = sum(layout.nbytes for layout in self.bench.slots) + outputs
        model = self.reference.build(self.shape, seed=0)
        inputs = self.reference.make_inputs(self.shape, seed=0)
        flops = count_flops(lambda: model(*inputs))
        if self.reference.device.type == "cuda":
            return device_roofline(bytes_moved=moved, output_bytes=outputs, flops=flops)
        return measure_roofline(
            self._nursery, self.limits, bytes_moved=moved, output_bytes=outputs, flops=flops
        )

    def config(self, extra: dict[str, Any]) -> dict[str, Any]:
        """What an arm needs to know of the Task; a Candidate's own entries come first."""
        return {
            "reference": asdict(self.reference.spec),
            "shape": self.shape,
            "signature": asdict(self.signature),
            "seed": 42,
            **extra,
        }

    def close(self) -> None:
        """Ends the baseline workers and frees the inputs."""
        for arm in self._baselines.values():
            if isinstance(arm, Arm):
                arm.close()
        self._baselines.clear()
        self.bench.close()

    def _start_baseline(self, name: str) -> Arm | BaselineFailed:
        arm_path, mode = _ARM_OF[name]
        return self._warm_baseline(name, PythonArtefact(arm_path, {"mode": mode}))

    def _warm_baseline(self, name: str, artefact: Artefact) -> Arm | BaselineFailed:
        arm = self.spawn(name, artefact, trusted=True)
        if isinstance(arm, Failure):
            return BaselineFailed(name, describe(arm))
        calls = self.bench.warm(arm, self.decoy)
        if isinstance(calls, Fault):
            arm.close()
            return BaselineFailed(name, calls.reason)
        return arm


class _WorkingBytes:
    """What is allocated on a device from here on, at most."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

    def peak(self) -> int:
        """Bytes beyond what was allocated before."""
        if self._device.type != "cuda":
            return 0
        return torch.cuda.max_memory_allocated() - self._before


def all_finite(value: torch.Tensor) -> bool:
    """Whether no element is NaN or infinite; both show in the extremes."""
    if value.numel() == 0:
        return True
    return all(math.isfinite(float(end)) for end in torch.aminmax(value))
