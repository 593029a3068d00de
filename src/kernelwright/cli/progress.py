"""Live progress: a rich table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from kernelwright.cli.output import summarise

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from kernelwright.core.candidate import Candidate
    from kernelwright.core.verdict import Verdict
    from kernelwright.judge import Session

_ROWS = 12


class Progress:
    """Shows what a Run is doing. With `as_json`, everything goes to stderr."""

    def __init__(self, task: str, budget_s: float, started: float, *, as_json: bool) -> None:
        self._task, self._budget_s, self._started = task, budget_s, started
        self._stream = sys.stderr if as_json else sys.stdout
        self._rows: list[tuple[str, str, str, str]] = []
        self._now = ""
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream)
            self._live = Live(
                get_renderable=self._table, console=console, refresh_per_second=2, transient=False
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._now = ""
            self._live.stop()

    def event(self, text: str) -> None:
        """What is being prepared."""
        self._now = text
        self._line(f"{self._elapsed():6.1f} s  {text}")

    def ready(self, session: Session) -> None:
        """The baselines are timed and the search begins."""
        times = ", ".join(f"{a.name} {a.wall_ns.mid / 1e6:.2f} ms" for a in session.baselines())
        floor = session.roofline.floor_ns / 1e6
        self.event(
            f"{self._task}: {times}; roofline {floor:.2f} ms; "
            f"this machine tells {100 * session.resolution:.1f} % apart"
        )

    def judged(self, candidate: Candidate, verdict: Verdict) -> None:
        """One more Verdict."""
        number = str(len(self._rows) + 1)
        row = (number, verdict.tier, candidate.idea or candidate.id, summarise(verdict))
        self._rows.append(row)
        self._line(f"{self._elapsed():6.1f} s  #{row[0]:3} {row[1]}  {row[2]}: {row[3]}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _line(self, text: str) -> None:
        if self._live is None:
            print(text, file=self._stream, flush=True)

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(title=f"{self._task}  {self._elapsed():.0f} of {self._budget_s:.0f} s")
        table.caption = self._now
        columns: dict[str, Any] = {"#": "right", "tier": "left", "idea": "left", "verdict": "left"}
        for name, side in columns.items():
            table.add_column(name, justify=side)
        for row in self._rows[-_ROWS:]:
            table.add_row(*row)
        return table
