"""Loads and runs a reference once in a bounded worker: it may hang or eat memory."""

from __future__ import annotations

from dataclasses import asdict, replace

from kernelwright.core.errors import TaskUnusable
from kernelwright.sandbox import Arena, Failure, Limits, Nursery
from kernelwright.tasks.spec import ReferenceSpec

_LOAD_S = 120.0


def preflight(name: str, spec: ReferenceSpec, nursery: Nursery, *, limits: Limits) -> None:
    """Tries a reference before the judge's own process loads it.

    Args:
        name: of the Task, for messages.
        spec: where the reference is.
        nursery: starts the worker.
        limits: threads and memory of it.

    Raises:
        TaskUnusable: it does not load or its forward does not run.
    """
    arena = Arena([])
    bounded = replace(limits, load_s=_LOAD_S)
    worker = nursery.spawn_python(
        "kernelwright.backends.arms:preflight",
        {"reference": asdict(spec)},
        arena=arena,
        outputs=(),
        limits=bounded,
    )
    arena.close()
    if isinstance(worker, Failure):
        raise _task_error(name, worker)
    worker.kill()


def _task_error(name: str, failure: Failure) -> TaskUnusable:
    match failure.kind:
        case "hung":
            what, advice = (
                f"loading it and one forward took more than {_LOAD_S:g} s",
                "Make the inputs smaller, or look for a loop that never ends.",
            )
        case "out_of_memory":
            what, advice = "it ran out of memory", "Make the inputs smaller."
        case "crashed":
            what, advice = f"its process died ({failure.detail})", "Make the inputs smaller."
        case _:
            what, advice = failure.detail or "it cannot be loaded", "Mend the file and try again."
    return TaskUnusable(name, what.rstrip("."), advice)
