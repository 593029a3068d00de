"""The entry point: parses, calls a verb, turns errors into one line and an exit status."""

from __future__ import annotations

import os
import platform
import signal
import sys
from typing import Any, NoReturn

import cyclopts
from cyclopts import App

import kernelwright
from kernelwright.cli.doctor import doctor
from kernelwright.cli.judge import judge
from kernelwright.cli.optimize import optimize
from kernelwright.cli.tasks import tasks
from kernelwright.core.errors import KernelwrightError, MachineUnsupported

DONE, NO_WIN, USER_ERROR, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 130

app = App(
    name="kernelwright",
    help="Verified faster kernels for PyTorch.",
    version=kernelwright.__version__,
    result_action="return_value",
)
app.command(doctor)
app.command(tasks)
app.command(optimize)
app.command(judge)


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        if platform.system() != "Linux":
            raise MachineUnsupported(f"this is {platform.system()}")
        status = app(argv, exit_on_error=False, print_error=False)
    except KernelwrightError as error:
        status = _complain(str(error))
    except cyclopts.CycloptsError as error:
        status = _complain(_parse_error(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader left: say no more
        status = DONE
    sys.exit(status if isinstance(status, int) else DONE)


def _parse_error(error: cyclopts.CycloptsError) -> str:
    text = " ".join(str(error).split())
    return f"{text} See kernelwright --help."


def _complain(text: str) -> int:
    print(f"kernelwright: {text}", file=sys.stderr)
    return USER_ERROR


def _as_interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
