"""`kernelwright tasks`: what there is to optimise, and what one Task is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from kernelwright.cli.options import Inputs, Json, KernelBench
from kernelwright.cli.output import Exit, print_json, say

if TYPE_CHECKING:
    from kernelwright.core.task import Task
    from kernelwright.tasks.reference import Reference
    from kernelwright.tasks.slots import Signature

tasks = App(
    name="tasks",
    help="""List the built-in tasks, or show one.

    A TASK is a built-in name, file.py in KernelBench's format, file.py:Class or
    package.module:Class with --input, or kernelbench:LEVEL/PROBLEM.
    """,
)


@tasks.default
def list_tasks(*, json: Json = False) -> int:
    """List the built-in tasks."""
    from kernelwright.tasks.catalog import builtin_names, describe

    listed = {name: describe(name) for name in builtin_names()}
    if json:
        print_json({"tasks": listed})
        return Exit.DONE
    for name, text in listed.items():
        say(f"{name:18} {text}")
    say("details: kernelwright tasks show NAME")
    return Exit.DONE


@tasks.command
def show(
    name: str,
    *,
    input: Inputs = (),  # noqa: A002
    kernelbench: KernelBench = None,
    json: Json = False,
) -> int:
    """Show one task: its shapes, every tensor a call reads and writes, and where it comes from.

    Loads the task file, so it runs that file's code.

    Args:
        name: A built-in name, file.py, file.py:Class, package.module:Class or kernelbench:1/23.
    """
    from dataclasses import asdict

    from kernelwright.tasks.catalog import find_task, reference_spec
    from kernelwright.tasks.reference import load_reference
    from kernelwright.tasks.slots import read_signature

    task = find_task(name, inputs=input, kernelbench=kernelbench)
    reference = load_reference(reference_spec(task))
    signature = read_signature(reference, reference.default_shape)
    if json:
        print_json(task.model_dump(mode="json") | {"signature": asdict(signature)})
    else:
        say("\n".join(_lines(task, reference, signature)))
    return Exit.DONE


def _lines(task: Task, reference: Reference, signature: Signature) -> list[str]:
    lines = [f"{task.name}  ({task.origin.kind}, precision class {task.precision})"]
    for dim in task.domain:
        timed = reference.default_shape[dim.name]
        lines.append(f"  {dim.name:10} {dim.low} to {dim.high}, timed at {timed}")
    if task.one_shape:
        lines.append("  judged at exactly the shapes of its inputs")
    tensors = [(slot.role, slot) for slot in signature.slots]
    tensors += [(f"-> {output.role}", output) for output in signature.outputs]
    lines += [f"  {role:10} {t.name:24} {t.dtype} {list(t.shape)}" for role, t in tensors]
    return lines + [f"  note: {note}" for note in signature.notes]
