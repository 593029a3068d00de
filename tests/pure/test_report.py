"""A report says what the Run says, in three formats, whatever a Candidate contains."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import program
import records
from kernelwright.core import Rejected
from kernelwright.report import as_html, as_markdown, read_facts
from kernelwright.report.charts import charts
from kernelwright.report.words import ratio, summarise
from kernelwright.runs import create_run, open_run

STORED = Path(__file__).resolve().parents[1] / "data" / "layernorm"


@pytest.fixture(scope="module")
def facts():
    return read_facts(open_run(STORED))


@pytest.fixture(scope="module")
def page(facts):
    return as_html(facts)


def text_of(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_every_format_says_the_same_numbers(facts, page):
    stored = json.loads(facts.model_dump_json())
    shown, written = text_of(page), as_markdown(facts)
    verdicts = open_run(STORED).verdicts()
    assert [row["candidate"] for row in stored["rows"]] == [v.candidate for v in verdicts]
    best = open_run(STORED).best()
    assert best is not None
    for line in (facts.headline, ratio(best.speedup), *(summarise(v) for v in verdicts)):
        phrase = " ".join(line.split())
        assert phrase in shown, phrase
        assert phrase in written, phrase
    for one in facts.winner.against:
        assert ratio(one.speedup) in shown
        assert ratio(one.speedup) in written


def test_the_page_needs_nothing_from_elsewhere(page):
    class Links(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag not in ("script", "iframe", "img", "object", "embed"), tag
            for name, value in attrs:
                if name in ("src", "href", "xlink:href"):
                    assert value.startswith(("#", "data:")), (tag, value)

    Links().feed(page)
    assert "url(http" not in page


def test_the_charts_hold_the_runs_own_numbers(facts):
    specs = charts(facts)
    assert list(specs) == ["progress", "roofline", "pairs", "ratios", "errors"]
    binding = facts.winner.against[0]
    pairs = specs["pairs"]["data"]["values"]
    assert [p["ms"] for p in pairs[:2]] == [ns / 1e6 for ns in binding.samples_ns[0]]
    assert len(pairs) == 2 * binding.pairs
    checked = specs["errors"]["layer"][0]["data"]["values"]
    correctness = facts.winner.verdict.outcome.correctness
    assert len(checked) == correctness.calls
    assert max(one["error"] for one in checked) == correctness.error_over_budget


def test_what_a_candidate_wrote_stays_text(tmp_path):
    hostile = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    folder = create_run(tmp_path, records.run_record())
    mine = records.candidate(f"// {hostile}", idea=f"{hostile} | `x`")
    folder.save_candidate(mine)
    folder.append(records.timed(1.2, 1.3, 1.4, tier="T2", name=mine.id))
    folder.append(records.verdict(Rejected(stage="build", reason=hostile), name=mine.id))
    facts = read_facts(folder)
    page = as_html(facts)
    assert "<script" not in page
    assert "<img" not in page
    assert "alert(1)" in text_of(page)
    table = [line for line in as_markdown(facts).splitlines() if "alert(2)" in line]
    assert table
    assert not re.search(r"(?<!\\)<script", "\n".join(line for line in table if line[0] == "|"))


def test_an_empty_run_and_one_without_a_win_have_reports_too(tmp_path):
    folder = create_run(tmp_path, records.run_record())
    facts = read_facts(folder)
    assert facts.outcome == "empty"
    assert "nothing was judged" in text_of(as_html(facts))
    assert "nothing was judged" in as_markdown(facts)
    lost = records.candidate()
    folder.append(records.verdict(Rejected(stage="verify", reason="wrong"), name=lost.id))
    facts = read_facts(folder)
    assert facts.outcome == "no_win"
    assert facts.winner is None
    assert "no candidate was right" in text_of(as_html(facts)), "and its folder is not needed"


def test_runs_of_the_version_before_are_read(tmp_path):
    record = records.run_record().model_copy(update={"schema_version": 1})
    folder = create_run(tmp_path, record)
    folder.save_candidate(records.candidate())
    folder.append(records.timed(1.2, 1.3, 1.4, tier="T2", name=records.candidate().id))
    facts = read_facts(open_run(folder.path))
    assert list(charts(facts)) == ["progress"]
    assert "1.30x [1.20, 1.40]" in text_of(as_html(facts))


def test_the_verb_writes_beside_the_run_or_where_it_is_told(tmp_path):
    folder = create_run(tmp_path, records.run_record())
    ran = program.run("report", folder.path)
    assert ran.status == 0
    assert (folder.path / "report.html").read_text().startswith("<!doctype html>")
    ran = program.run("report", folder.path, "--format", "md", "-o", tmp_path / "out.md")
    assert ran.status == 0
    assert (tmp_path / "out.md").read_text().startswith("# softmax")
    assert program.run("report", folder.path, "--json").json["outcome"] == "empty"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: (run / "run.json").unlink(), "it has no run.json"),
        (lambda run: (run / "run.json").write_text('{"id"'), "it cannot be read"),
        (lambda run: (run / "verdicts.jsonl").write_text("no\n"), "is no Verdict"),
        (lambda run: (run / "report.html").mkdir(), "Name another with --output"),
    ],
)
def test_what_cannot_be_reported_is_one_line(tmp_path, spoil, said):
    folder = create_run(tmp_path, records.run_record())
    spoil(folder.path)
    ran = program.run("report", folder.path)
    assert ran.status == 2
    assert said in ran.complaint
