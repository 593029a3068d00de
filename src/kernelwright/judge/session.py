"""A session: one Task, its stations and baselines, and the secret key that all inputs come from."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import kernelwright
from kernelwright.backends import BACKENDS, find_toolchain
from kernelwright.backends.toolchain import cpu_features
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CompilerMissing, TaskUnusable
from kernelwright.core.ground import Ground
from kernelwright.core.task import Task
from kernelwright.core.verdict import (
    ArmTime,
    OracleStrength,
    Outcome,
    Provenance,
    Tier,
    Verdict,
)
from kernelwright.judge.certify import find_obstacle
from kernelwright.judge.defences import ALL_DEFENCES, Defences
from kernelwright.judge.device import hold_device
from kernelwright.judge.effort import Effort
from kernelwright.judge.empty_call import measure_empty_call
from kernelwright.judge.measure import Arm, Fault, compare_arms
from kernelwright.judge.measure.roofline import RatesUnknown, Roofline
from kernelwright.judge.pipeline import Pipeline
from kernelwright.judge.preflight import preflight
from kernelwright.judge.station import COMPILE, EAGER, MAX_AUTOTUNE, Station
from kernelwright.sandbox import (
    NO_JAIL,
    Limits,
    Nursery,
    SandboxTier,
    SelfTest,
    WorkerKind,
    default_limits,
    run_self_test,
)
from kernelwright.tasks.catalog import reference_spec
from kernelwright.tasks.reference import load_reference
from kernelwright.tasks.shapes import near_shape

_BASELINE_PAIRS = 18
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h
Event = Callable[[str], None]


class Session:
    """Judges Candidates for one Task. Made by `open_session`."""

    def __init__(
        self,
        task: Task,
        nursery: Nursery,
        *,
        limits: Limits,
        seed: int | None,
        on_event: Event,
        defences: Defences,
    ) -> None:
        self.task = task
        self.defences = defences
        self.cache = nursery.cache
        self.notes: list[str] = []
        self.baseline_names: tuple[str, ...] = (EAGER, COMPILE)
        """Every T2 Verdict is against the fastest of these."""
        self.dear_baselines: tuple[str, ...] = (MAX_AUTOTUNE,)
        """Started only when a win over all others is claimed."""
        self._nursery, self._limits, self._tell = nursery, limits, on_event
        self._self_tests: dict[WorkerKind, SelfTest] = {}
        self._root = np.random.SeedSequence(seed if seed is not None else _entropy())
        self._commitment = hashlib.sha256(str(self._root.entropy).encode()).hexdigest()
        self._spec = reference_spec(task)
        self._tell("loading the task")
        preflight(task.name, self._spec, nursery, limits=limits)
        self.reference = load_reference(self._spec)
        self.shape = dict(self.reference.default_shape)
        self._tell("drawing inputs and probing the oracle")
        self.main = self._station(self.shape)
        if self.main.signature.random:
            raise TaskUnusable(
                task.name,
                "forward draws random numbers, so two calls on the same inputs differ",
                "Put the module into eval mode or pass the random tensor as an input.",
            )
        self._probe_oracle()
        self._probe_machine()
        self._pipeline = Pipeline(self)

    def judge(
        self, candidate: Candidate, tier: Tier = "T1", *, effort: Effort | None = None
    ) -> Verdict:
        """Judges a Candidate. A Candidate's failure is in the Verdict, never an exception.

        Args:
            candidate: what to judge.
            tier: how thoroughly.
            effort: other counts than the tier's own, for studies of the judge itself; the Verdict
                says so in its notes.

        Raises:
            CompilerMissing: the machine lacks a tool this kind of Candidate needs.
        """
        return self._pipeline.judge(candidate, tier, effort)

    def confirm(self, candidate: Candidate) -> Verdict:
        """The Verdict that a Run reports: T2, on inputs no earlier call has seen."""
        return self.judge(candidate, "T2")

    @property
    def ground(self) -> Ground:
        """What this session measures Candidates against."""
        roofline = self.roofline
        return Ground(
            task=self.task.name,
            shape=self.main.label,
            baselines=self._times,
            resolution=self.resolution,
            bytes_moved=roofline.bytes_moved,
            flops=roofline.flops,
            bytes_per_s=roofline.bytes_per_s,
            flops_per_s=roofline.flops_per_s,
            floor_ns=roofline.floor_ns,
        )

    def sandbox_of(self, kind: str) -> SandboxTier:
        """The tier in which Candidates of a kind run; `graph` ones bring no code to lock up."""
        return self._nursery.jail.tier if BACKENDS[kind].locked_up else "D"

    @property
    def quickest_first(self) -> tuple[str, ...]:
        """`baseline_names` with the fastest known one in front."""
        return tuple(sorted(self.baseline_names, key=lambda name: name != self.fastest))

    def renew(self) -> None:
        """Fresh baseline workers under a fresh key, for a Verdict that must not depend on one."""
        self.main.close()
        self.main = self._station(self.shape)
        self.main.settle()
        self.no_op_p95_ns = measure_empty_call(self.main, self.cache)

    def other_stations(self, count: int) -> Iterator[Station]:
        """Stations at secret shapes inside the Task's domain; the caller closes each."""
        if self.task.one_shape or not self.defences.shapes:
            return
        rng = np.random.Generator(np.random.Philox(key=self.secret()))
        for shape in self.reference.secret_shapes(rng, count):
            yield self._station(shape)

    def near_station(self) -> Station | None:
        """A station a little off the timed shape; the caller closes it. None where none is."""
        if not self.defences.shapes:
            return None
        rng = np.random.Generator(np.random.Philox(key=self.secret()))
        shape = near_shape(self.reference.domain, self.reference.default_shape, rng)
        return None if shape is None else self._station(shape)

    def secret(self) -> int:
        """A fresh 63-bit key derived from the session's."""
        return int(self._root.spawn(1)[0].generate_state(1, np.uint64)[0] >> 1)

    def provenance(
        self, tier: Tier, outcome: Outcome, kind: str, *, notes: tuple[str, ...], usual_effort: bool
    ) -> Provenance:
        """The conditions every Verdict carries.

        Args:
            tier: that it was judged at.
            outcome: what it came to.
            kind: of the Candidate.
            notes: labels a reader must know.
            usual_effort: the tier's own counts were used.
        """
        sandbox = self.sandbox_of(kind)
        obstacle = None
        if tier == "T3":
            obstacle = find_obstacle(
                outcome,
                sandbox=sandbox,
                self_test=lambda: self._self_test("python" if kind == "python" else "native"),
                defences=self.defences,
                oracle=self.oracle_strength,
                usual_effort=usual_effort,
            )
            notes += (f"uncertified: {obstacle}",) if obstacle else ()
        return Provenance(
            sandbox=sandbox,
            certified=tier == "T3" and obstacle is None,
            precision=self.task.precision,
            kernelwright=kernelwright.__version__,
            torch=torch.__version__,
            compiler=_compiler(),
            machine=_machine(self.task.device),
            threads=self._limits.threads,
            seed_commitment=self._commitment,
            defences_off=self.defences.off,
            notes=notes,
        )

    def _self_test(self, worker: WorkerKind) -> SelfTest:
        if worker not in self._self_tests:
            self._self_tests[worker] = run_self_test(self._nursery.jail, worker)
        return self._self_tests[worker]

    def close(self) -> None:
        """Ends every worker of this session."""
        self.main.close()

    def _station(self, shape: dict[str, int]) -> Station:
        return Station(
            self._nursery,
            self.reference,
            shape,
            limits=self._limits,
            key=self.secret(),
            defences=self.defences,
        )

    def _probe_oracle(self) -> None:
        report = self.main.probe_oracle(self.task.precision)
        self.oracle_strength: OracleStrength = "weak" if report.survivors else "strong"
        if report.survivors:
            self.notes.append("weak oracle: would accept " + ", ".join(report.survivors[:3]))
        self.notes.extend(
            f"{name} is the same in every draw: a kernel may pass without reading it"
            for name in report.fixed
        )
        if self.task.one_shape:
            self.notes.append("one shape only: judged at exactly the shapes of the task's inputs")
        self.notes.extend(self.main.signature.notes)

    def _probe_machine(self) -> None:
        station = self.main
        self._tell("baseline: eager")
        resolution = station.settle() or station.measure_resolution()
        if isinstance(resolution, Fault):
            raise TaskUnusable(
                self.task.name, f"the reference fails: {resolution.reason}", "Mend it first."
            )
        self.resolution: float = resolution.resolution
        self.no_op_p95_ns: float = measure_empty_call(station, self.cache)
        self.roofline: Roofline = self._roofline(station)
        self._tell("baseline: torch.compile")
        times = [ArmTime(name=EAGER, wall_ns=resolution.baseline_ns())]
        self.fastest = EAGER
        compiled, eager = station.baseline(COMPILE), station.baseline(EAGER)
        if isinstance(compiled, Arm) and isinstance(eager, Arm):
            versus = compare_arms(
                station.bench, eager, compiled, draws=station.cycling(), pairs=_BASELINE_PAIRS
            )
            if not isinstance(versus, Fault):
                times = [
                    ArmTime(name=EAGER, wall_ns=versus.baseline_ns()),
                    ArmTime(name=COMPILE, wall_ns=versus.candidate_ns()),
                ]
                self.fastest = COMPILE if versus.interval.mid > 1 else EAGER
        elif not isinstance(compiled, Arm):
            self.notes.append(f"torch.compile failed: {compiled.reason}"[:300])
        self._times: tuple[ArmTime, ...] = tuple(sorted(times, key=lambda t: t.wall_ns.mid))

    def _roofline(self, station: Station) -> Roofline:
        try:
            return station.roofline()
        except RatesUnknown as error:
            raise TaskUnusable(
                self.task.name,
                f"the machine's copy and GEMM rates could not be measured: {error}",
                "Free some memory and try again.",
            ) from error


@contextmanager
def open_session(
    task: Task,
    *,
    seed: int | None = None,
    on_event: Event | None = None,
    cache: Path | None = None,
    defences: Defences = ALL_DEFENCES,
) -> Generator[Session]:
    """Prepares a Task for judging and ends every process when the block is left.

    Args:
        task: from `kernelwright.tasks.catalog.find_task`.
        seed: fixes all draws, for tests; None draws a secret one, as any claim needs.
        on_event: told in a few words what is being done, for a progress display.
        cache: builds and compiled baselines; default is the user's cache folder.
        defences: all, but in a study of what one of them is for.

    Raises:
        TaskUnusable: the reference cannot be loaded, run or judged.
        DeviceRefused: the Task is for a device that is not there.
    """
    # The judge's own OpenMP threads must not spin into a worker's timed window.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _keep_heap()
    tell = on_event or (lambda _: None)
    with hold_device(task.device, tell), _nursery(cache, defences) as nursery:
        nursery.start()
        session = Session(
            task,
            nursery,
            limits=replace(default_limits(), reserving=task.device == "cuda"),
            seed=seed,
            on_event=tell,
            defences=defences,
        )
        try:
            yield session
        finally:
            session.close()


def _nursery(cache: Path | None, defences: Defences) -> Nursery:
    return Nursery(cache or default_cache(), jail=None if defences.jail else NO_JAIL)


def default_cache() -> Path:
    """`$KERNELWRIGHT_CACHE`, else the XDG cache folder, else, if read-only, a temporary one."""
    named = os.environ.get("KERNELWRIGHT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(named) if named else Path(base) / "kernelwright"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"kernelwright-cache-{os.getuid()}"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _keep_heap() -> None:
    """Lets this process keep the memory it frees: truths come and go by the hundred megabytes.

    On a virtual machine a page that is touched for the first time costs microseconds, since the
    host has to find it too; comparing 8 million numbers took 500 ms on fresh pages, 40 on old ones.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _entropy() -> int:
    return int.from_bytes(os.urandom(16), "little")


def _machine(device: str) -> str:
    cpu = f"{platform.machine()} {cpu_features().partition(' fpu')[0]}"
    return f"{torch.cuda.get_device_name()}, {cpu}" if device == "cuda" else cpu


def _compiler() -> str:
    try:
        return find_toolchain().version
    except CompilerMissing:
        return "none"
