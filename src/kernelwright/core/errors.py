"""What a user can do wrong. Each error says what happened, where, and what to do."""

from __future__ import annotations


class KernelwrightError(Exception):
    """A mistake the user can mend; the command line prints it in one line and exits with 2."""


class TaskNotFound(KernelwrightError):
    """The TASK argument names nothing."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"no task {name!r}: {hint}")


class TaskUnusable(KernelwrightError):
    """The reference exists but cannot be a Task."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        super().__init__(f"{where}: {what}. {advice}")
        self.where, self.what, self.advice = where, what, advice


class CandidateUnreadable(KernelwrightError):
    """The CANDIDATE argument is no candidate folder or file."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{where}: {what}. A candidate is a folder with candidate.json, or a .cpp, .cu or .py "
            "file."
        )


class CompilerMissing(KernelwrightError):
    """A tool that a backend calls is not on PATH."""

    def __init__(self, tool: str, package: str) -> None:
        super().__init__(f"{tool!r} is not on PATH. Install {package!r}.")


class MachineUnsupported(KernelwrightError):
    """This operating system or architecture cannot run the judge."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. kernelwright runs on Linux.")


class SandboxBroke(KernelwrightError):
    """A worker or a compiler could not be locked up, and so ran nothing of a Candidate."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a worker or compiler could not be locked up: {what or 'it ended without a word'}. "
            "See kernelwright doctor --sandbox."
        )


class DeviceRefused(KernelwrightError):
    """The device or its driver cannot do what a judgement on it takes."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the CUDA device cannot be used: {what}. See kernelwright doctor, or leave out "
            "--device cuda."
        )


class RunFolderUnusable(KernelwrightError):
    """A run folder is missing, corrupt or cannot be written."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        super().__init__(f"{where}: {what}. {advice}")


class BudgetMalformed(KernelwrightError):
    """A budget cannot be read."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"budget {text}: it is neither a time nor a count. "
            "Write 90s, 5m, 1h, or a number of candidates such as 20; or both: 5m,20."
        )
