"""Live progress: a rich table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from kernelwright.cli.result import describe_ground
from kernelwright.report.words import summarise

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from kernelwright.core.candidate import Candidate
    from kernelwright.core.ground import Ground
    from kernelwright.core.verdict import Verdict

_ROWS = 12
_BAR_WIDTH = 30


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

            # No refresh thread: it would wake up inside the judge's timed windows.
            self._live = Live(console=Console(file=self._stream), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._now = ""
            self._live.update(self._picture(), refresh=True)
            self._live.stop()

    def event(self, text: str) -> None:
        """What is being prepared."""
        self._now = text
        self._show(text)

    def ready(self, ground: Ground) -> None:
        """The baselines are timed and the search begins."""
        self.event(describe_ground(ground))

    def judged(self, candidate: Candidate, verdict: Verdict) -> None:
        """One more Verdict."""
        number = str(len(self._rows) + 1)
        row = (number, verdict.tier, candidate.idea or candidate.id, summarise(verdict))
        self._rows.append(row)
        self._show(f"#{number:<3} {verdict.tier}  {row[2]}: {row[3]}")

    def _show(self, line: str) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        else:
            print(f"{self._elapsed():6.1f} s  {line}", file=self._stream, flush=True)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        # Text, since rich would read brackets in a compiler's message as markup.
        table = Table(title=Text(self._task), caption=Text(self._now), expand=True)
        table.add_column("#", justify="right")
        table.add_column("tier")
        table.add_column("idea", ratio=2)
        table.add_column("verdict", ratio=3, max_width=200, overflow="ellipsis")
        for row in self._rows[-_ROWS:]:
            table.add_row(*map(Text, row))
        done = min(self._elapsed(), self._budget_s)
        bar = ProgressBar(total=self._budget_s, completed=done, width=_BAR_WIDTH)
        return Group(table, bar, Text(f"{self._elapsed():.0f} of {self._budget_s:.0f} s"))
