"""One HTML file that opens offline: no script, no font, no image from elsewhere."""

from __future__ import annotations

import difflib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, DiffLexer, JsonLexer, PythonLexer
from pygments.styles import get_style_by_name

from kernelwright.report.charts import charts, draw
from kernelwright.report.facts import Facts, Winner
from kernelwright.report.words import milliseconds, ratio

_LEXERS = {".py": PythonLexer, ".json": JsonLexer}
_FORMATTER = HtmlFormatter(nowrap=True)


def as_html(facts: Facts) -> str:
    """The page as text. Everything that came from a Candidate is escaped: its source is hostile."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ratio": ratio, "milliseconds": milliseconds}
    return environment.get_template("page.html.j2").render(
        facts=facts,
        winner=facts.winner,
        provenance=facts.winner.verdict.provenance if facts.winner else None,
        style=Path(__file__).with_name("page.css").read_text(),
        light=_colours("default"),
        dark=_colours("github-dark"),
        charts={name: draw(name, spec) for name, spec in charts(facts).items()},
        sources=[(name, _highlight(name, text)) for name, text in _shown(facts.winner)],
        diff=_diff(facts.winner),
        others={
            row.candidate: [(name, _highlight(name, text)) for name, text in texts[:1]]
            for row in facts.rows
            if (texts := facts.sources.get(row.candidate))
        },
    )


def _shown(winner: Winner | None) -> tuple[tuple[str, str], ...]:
    return winner.sources if winner else ()


def _highlight(name: str, text: str) -> str:
    lexer = _LEXERS.get(Path(name).suffix, CppLexer)
    return highlight(text, lexer(), _FORMATTER)


def _diff(winner: Winner | None) -> str:
    """Against the Candidate it was derived from, of the first source."""
    if winner is None or not winner.parent:
        return ""
    name, mine = winner.sources[0]
    theirs = dict(winner.parent).get(name, "")
    lines = difflib.unified_diff(
        theirs.splitlines(), mine.splitlines(), "parent", name, lineterm="", n=2
    )
    return highlight("\n".join(lines), DiffLexer(), _FORMATTER)


def _colours(style: str) -> str:
    return HtmlFormatter(style=get_style_by_name(style)).get_style_defs("pre.code")
