"""How much work each tier does. T0 builds, T1 screens, T2 rewards, T3 certifies."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.core.verdict import Tier


@dataclass(frozen=True, slots=True)
class Effort:
    """The counts behind one tier."""

    families: int
    """Input families checked at the main shape; 0 means none, more than there are means all."""
    shapes: int
    """Further shapes of the Task's domain: just above and just below powers of two, a bound, and
    the rest drawn in secret."""
    pairs: int
    """Timed pairs against each baseline, even in number; one shown not to bind gets fewer."""
    most_pairs: int
    """As many again, and again, up to this, while the interval is wider than `width`."""
    width: float
    """Half-width of the interval that is narrow enough, as a ratio minus 1. The rule looks at the
    width and never at where the interval lies, so stopping cannot lean towards a claim."""
    check_share: float
    """Share of the timed calls that is compared in full, chosen in secret."""
    look_share: float
    """Further calls per timed pair, untimed, in which the judge looks which code runs."""
    all_baselines: bool
    """Every baseline, max-autotune for a claimed win included; else only the fastest known."""
    rounds: int = 1
    """Repeats in fresh processes under fresh keys."""


EFFORTS: dict[Tier, Effort] = {
    "T0": Effort(
        families=0,
        shapes=0,
        pairs=0,
        most_pairs=0,
        width=0.0,
        check_share=0.0,
        look_share=0.0,
        all_baselines=False,
    ),
    "T1": Effort(
        families=3,
        shapes=0,
        pairs=20,
        most_pairs=20,
        width=0.04,
        check_share=0.2,
        look_share=0.25,
        all_baselines=False,
    ),
    "T2": Effort(
        families=99,
        shapes=4,
        pairs=50,
        most_pairs=150,
        width=0.025,
        check_share=0.15,
        look_share=0.2,
        all_baselines=True,
    ),
    "T3": Effort(
        families=99,
        shapes=6,
        pairs=50,
        most_pairs=150,
        width=0.025,
        check_share=0.5,
        look_share=0.3,
        all_baselines=True,
        rounds=3,
    ),
}
