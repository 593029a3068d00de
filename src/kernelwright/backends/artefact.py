"""What a build gives, and the Protocol every backend follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelwright.core.candidate import Candidate


@dataclass(frozen=True, slots=True)
class NativeArtefact:
    """A shared object that the native runner loads."""

    library: Path
    symbol: str


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What the assembler reports of one kernel. Advice: a Candidate's own code made it."""

    name: str
    registers: int
    shared_bytes: int
    """Static; what a launch adds is not known here."""
    spill_bytes: int
    """Stores and loads."""
    wgmma: int = 0
    """Warpgroup matrix instructions in the PTX of the Candidate as a whole."""


@dataclass(frozen=True, slots=True)
class PythonArtefact:
    """An arm that a forked Python worker serves: "module:function" and its JSON configuration."""

    arm: str
    config: dict[str, Any]
    notes: tuple[str, ...] = ()
    """Labels for the Verdict, such as a slow build path."""
    reads: tuple[Path, ...] | None = None
    """The Candidate's own files, where code of it runs; None: only data of it does."""
    kernels: tuple[KernelFacts, ...] = ()
    """Of a device, as its assembler reports them."""


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """The Candidate's own fault: it does not build. The reason is the first error, in one line."""

    reason: str
    log: str = field(default="", repr=False)


Artefact = NativeArtefact | PythonArtefact


class Backend(Protocol):
    """The whole extension point: one kind of Candidate and how to build it.

    A backend for another device (HIP, say) is one more class with these two members.
    """

    kind: str
    devices: tuple[str, ...]
    """Where its artefacts run; see `core.task.DeviceKind`."""
    locked_up: bool
    """Whether code of the Candidate's own runs, and so only in a locked-up worker."""

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """Builds once per content; later calls answer from `cache`, failures included.

        Raises:
            CompilerMissing: the machine lacks a tool this backend calls.
        """
        ...
