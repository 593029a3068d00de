"""The inputs that screening uses again for one Candidate after another.

Drawing numbers and computing their truth costs more than a screening's own calls, so a few draws
are kept. That is safe because no worker outlives its Verdict: to each of them every draw is new.
Which calls are checked stays secret: the draws that have a truth look like those that have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernelwright.judge.measure import Draw

_TIMED, _CHECKED, _SCREENS = 20, 4, 4
_RENEWED = 0.25
"""Chance, per use, that one of the kept draws is replaced."""


class Pool:
    """Draws of one Task at one shape."""

    def __init__(
        self, fresh: Callable[[str], Draw], families: list[str], rng: np.random.Generator
    ) -> None:
        """Empty at first: it fills as Verdicts need draws.

        Args:
            fresh: draws new numbers of a family.
            families: whose edge cases the screens rotate over.
            rng: secret order and choice.
        """
        self._fresh, self._families, self._rng = fresh, families, rng
        self._timed: list[Draw] = []
        self._checked: list[Draw] = []
        self._screens: list[Draw] = []
        self._to_come: list[str] = []

    def screens(self, count: int) -> list[Draw]:
        """Up to `count` draws of different families, in secret order."""
        want = min(max(count + 1, _SCREENS), len(self._families))
        if len(self._screens) >= want and self._rng.random() < _RENEWED:
            self._screens.pop(int(self._rng.integers(len(self._screens))))
        while len(self._screens) < want:
            self._screens.append(self._fresh(self._next_family()))
        order = self._rng.permutation(len(self._screens))[:count]
        return [self._screens[at] for at in order]

    def timed(self) -> Iterator[Draw]:
        """Nominal draws without end, for calls that no one checks."""
        return self._cycle(self._timed, _TIMED)

    def checked(self) -> Iterator[Draw]:
        """Nominal draws without end, for calls whose outputs are compared."""
        return self._cycle(self._checked, _CHECKED)

    def _cycle(self, kept: list[Draw], most: int) -> Iterator[Draw]:
        if kept and self._rng.random() < _RENEWED:
            kept[int(self._rng.integers(len(kept)))] = self._fresh("nominal")
        for at in self._rng.permutation(len(kept)):
            yield kept[at]
        while True:
            one = self._fresh("nominal")
            if len(kept) < most:
                kept.append(one)
            yield one

    def _next_family(self) -> str:
        """Every family has its turn before one comes again; none is there twice."""
        if not self._to_come:
            present = {one.family for one in self._screens}
            rest = [name for name in self._families if name not in present]
            self._to_come = [str(name) for name in self._rng.permutation(rest)]
        return self._to_come.pop()
