"""The page in a real browser: nothing on its console, and something to see."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.report import as_html, read_facts
from kernelwright.runs import open_run

STORED = Path(__file__).resolve().parents[1] / "data" / "layernorm"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("dark", [False, True])
def test_chromium_shows_the_page_without_an_error(tmp_path, dark):
    page = tmp_path / "report.html"
    page.write_text(as_html(read_facts(open_run(STORED))))
    shot = tmp_path / "shot.png"
    ran = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1280,1400",
            f"--screenshot={shot}",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "CONSOLE" not in ran.stderr, ran.stderr
    assert shot.stat().st_size > 50_000, "an empty page compresses to a few kilobytes"
