"""Does a Run survive `kill -9`? One Run, killed at random moments and resumed each time.

    python benchmarks/resume.py [--kills 30] [--seed 1] [--json]

`lost`: Verdicts that were in the folder and are not there, unchanged and in place, after a resume.
`duplicated`: Verdicts at the end beyond what an uninterrupted Run of this budget makes.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("kernelwright")
EVALUATIONS = 6
LONGEST_S = 12.0
TASK = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [torch.randn(512, 512)]
def get_init_inputs():
    return []
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = study(Path(folder), options.kills, random.Random(options.seed))
    print(json.dumps(result) if options.json else result)


def study(folder: Path, kills: int, rng: random.Random) -> dict[str, int]:
    (folder / "small.py").write_text(TASK)
    start = ["optimize", "small.py", "--budget", f"10m,{EVALUATIONS}"]
    lost, words = 0, start
    for _ in range(kills):
        before = lines_of(folder)
        kill_after(folder, words, rng.uniform(0.0, LONGEST_S))
        lost += sum(line not in lines_of(folder) for line in before)
        lost += lines_of(folder)[: len(before)] != before
        run = next(iter(folder.glob("runs/*/run.json")), None)
        words = ["optimize", "--resume", str(run.parent)] if run else start
        if run and len(lines_of(folder)) > EVALUATIONS:  # done: the next kill gets a new Run
            run.parent.rename(folder / f"done-{time.time_ns()}")
            words = start
    before = lines_of(folder)
    subprocess.run([PROGRAM, *words, "--json"], cwd=folder, check=False, capture_output=True)
    after = lines_of(folder)
    lost += after[: len(before)] != before
    screened = sum(json.loads(line)["tier"] == "T1" for line in after)
    confirmed = [v["candidate"] for v in map(json.loads, after) if v["tier"] == "T2"]
    duplicated = screened - EVALUATIONS + len(confirmed) - len(set(confirmed))
    return {"kills": kills, "lost": int(lost), "duplicated": duplicated}


def kill_after(folder: Path, words: list[str], seconds: float) -> None:
    """Counts from the first line the program prints."""
    process = subprocess.Popen(
        [PROGRAM, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    process.wait()
    process.stdout.close()


def lines_of(folder: Path) -> list[bytes]:
    """The whole lines of the Run's Verdicts; a cut one was never promised."""
    path = next(iter(folder.glob("runs/*/verdicts.jsonl")), None)
    return path.read_bytes().split(b"\n")[:-1] if path else []


if __name__ == "__main__":
    main()
