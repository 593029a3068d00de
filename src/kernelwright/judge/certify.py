"""Whether a T3 Verdict certifies anything: every wall must be up, and tried on this machine."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.core.errors import CompilerMissing, SandboxBroke
from kernelwright.core.verdict import Accepted, OracleStrength, Outcome
from kernelwright.judge.defences import Defences
from kernelwright.sandbox import SandboxTier, SelfTest

_OPEN_WALLS: dict[SandboxTier, str] = {
    "C": "the worker could read files",
    "D": "the worker was a plain process",
}


def find_obstacle(
    outcome: Outcome,
    *,
    sandbox: SandboxTier,
    self_test: Callable[[], SelfTest],
    defences: Defences,
    oracle: OracleStrength,
    usual_effort: bool,
) -> str | None:
    """Why a T3 Verdict certifies nothing, in words; None where it does.

    Args:
        outcome: what the gates found.
        sandbox: tier of the Candidate's worker.
        self_test: tries the forbidden acts in such a worker; called only if all else is well.
        defences: of the judge.
        oracle: whether outputs of no work would pass.
        usual_effort: the tier's own counts were used.
    """
    if not isinstance(outcome, Accepted):
        return "nothing was accepted"
    if sandbox in _OPEN_WALLS:
        return f"{_OPEN_WALLS[sandbox]} (sandbox tier {sandbox})"
    if defences.off:
        return f"without {', '.join(defences.off)}"
    if not usual_effort:
        return "not at the tier's own effort"
    if oracle != "strong":
        return "the oracle is weak"
    if outcome.libraries is None:
        return "no look into its calls found it at work"
    try:
        found = self_test()
    except (CompilerMissing, SandboxBroke) as error:
        return f"the sandbox could not be tested: {error}"
    if found.succeeded:
        return f"the sandbox does not hold: {', '.join(found.succeeded)}"
    return None
