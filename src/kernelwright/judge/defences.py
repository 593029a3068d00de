"""What keeps a Candidate from being rewarded for anything but its work, one name per layer."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Defences:
    """Every layer that can be left off to show that it is needed.

    A judge with one of them off says so in its Verdicts, which then are worth no reward. What has
    no switch is the structure itself: the clock, the oracle, the inputs and the Verdict are in a
    process that no Candidate is in.
    """

    fresh_inputs: bool = True
    """Every call is on bytes that the worker has not seen."""
    redrawn_weights: bool = True
    """Parameters and running statistics change between calls, too."""
    timed_checks: bool = True
    """A secret share of the timed calls is compared in full."""
    families: bool = True
    """Edge-case inputs beside the nominal ones."""
    shapes: bool = True
    """Secret shapes of the Task's domain."""
    error_budget: bool = True
    """Errors are measured against fp64 and the reference's own; off: 1e-2, relative or absolute."""
    exact_layout: bool = True
    """An output has the reference's dtype, shape and strides; off: whatever can be read as it."""
    own_memory: bool = True
    """An output shares no memory with an input or an output that is still in use."""
    fence: bool = True
    """In calls that no one times, buffers end where memory ends."""
    freeze: bool = True
    """A worker stands still except inside its own calls."""
    library_policy: bool = True
    """Library calls that a Task forbids are looked for in the running worker."""
    jail: bool = True
    """A Candidate's worker sees no file, process or network of this machine."""

    @property
    def off(self) -> tuple[str, ...]:
        """Names of the layers that are left off."""
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))


ALL_DEFENCES = Defences()
