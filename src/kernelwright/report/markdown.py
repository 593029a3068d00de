"""The same facts as Markdown, for an issue or a pull request."""

from __future__ import annotations

from kernelwright.report.facts import Facts, Row
from kernelwright.report.words import milliseconds, ratio


def as_markdown(facts: Facts) -> str:
    """Headline, verdict, baselines, candidates, source, and how to repeat it."""
    parts = [f"# {_plain(facts.headline)}"]
    winner = facts.winner
    if winner is not None:
        parts.append("\n".join(f"- {_plain(line.strip())}" for line in winner.explanation))
    if winner is not None and winner.against:
        rows = [
            [
                one.baseline,
                ratio(one.speedup),
                milliseconds(one.baseline_ns.mid),
                milliseconds(one.candidate_ns.mid),
                str(one.pairs),
            ]
            for one in winner.against
        ]
        parts.append(_table(["baseline", "speed-up", "baseline", "candidate", "pairs"], rows))
    if facts.rows:
        parts += ["## Candidates", _candidates(facts.rows)]
    if winner is not None:
        name, text = winner.sources[0]
        parts += [f"## Source: {name}", _fenced(text)]
    parts += ["## Again", _fenced("\n".join(facts.reproduce))]
    return "\n\n".join(parts) + "\n"


def _candidates(rows: tuple[Row, ...]) -> str:
    cells = [
        [
            str(row.number),
            row.tier,
            row.candidate,
            row.idea,
            row.result,
            "" if row.error_over_budget is None else f"{row.error_over_budget:.2f}",
        ]
        for row in rows
    ]
    return _table(["#", "tier", "candidate", "idea", "verdict", "error/budget"], cells)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_plain, line)) + " |" for line in lines)


def _plain(text: str) -> str:
    """One line in which a candidate's words cannot become markup or end a cell."""
    escaped = " ".join(text.split())
    for mark in "\\`|<":
        escaped = escaped.replace(mark, "\\" + mark)
    return escaped


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
