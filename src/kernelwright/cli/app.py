"""The entry point: parses, calls a verb, turns errors into one line and an exit status."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import traceback
from typing import Any, NoReturn

import cyclopts
from cyclopts import App

import kernelwright
from kernelwright.cli.doctor import doctor
from kernelwright.cli.explain import explain
from kernelwright.cli.export import export
from kernelwright.cli.gauntlet import gauntlet
from kernelwright.cli.judge import judge
from kernelwright.cli.optimize import optimize
from kernelwright.cli.output import Exit, complain, print_json, show_warnings_as_lines
from kernelwright.cli.report import report
from kernelwright.cli.reverify import reverify
from kernelwright.cli.tasks import tasks
from kernelwright.core.errors import KernelwrightError, MachineUnsupported

_VERBOSE = "--verbose"

app = App(
    name="kernelwright",
    help="""Verified faster kernels for PyTorch.

    With --verbose after any command, the compiler calls and workers that it starts are printed to
    stderr.
    """,
    version=kernelwright.__version__,
    result_action="return_value",
)
app.command(doctor)
app.command(tasks)
app.command(optimize)
app.command(judge)
app.command(gauntlet)
app.command(reverify)
app.command(explain)
app.command(report)
app.command(export)
app.register_install_completion_command()


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    given = sys.argv[1:] if argv is None else argv
    words = [word for word in given if word != _VERBOSE]
    if len(words) < len(given):
        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("kernelwright").setLevel(logging.DEBUG)
    signal.signal(signal.SIGTERM, _as_interrupt)
    show_warnings_as_lines()
    try:
        if platform.system() != "Linux":
            raise MachineUnsupported(f"this is {platform.system()}")
        status = app(words, exit_on_error=False, print_error=False)
    except KernelwrightError as error:
        status = _refuse(str(error), words)
    except cyclopts.CycloptsError as error:
        status = _refuse(f"{error} See kernelwright --help.", words)
    except KeyboardInterrupt:
        complain("interrupted")
        status = Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader left: say no more
        status = Exit.DONE
    except Exception:
        # Python's own status for this is 1, which a caller would read as "no win found".
        traceback.print_exc()
        complain("this is a bug in kernelwright; please report the lines above")
        status = Exit.BUG
    sys.exit(int(status) if isinstance(status, int) else Exit.DONE)


def _refuse(text: str, words: list[str]) -> Exit:
    complain(text)
    if "--json" in words:
        print_json({"error": " ".join(text.split())})
    return Exit.USER_ERROR


def _as_interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
