"""`kernelwright tasks`: what there is to optimise, and what one Task is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelwright.cli.output import print_json


def tasks(
    action: str = "list",
    name: str | None = None,
    *,
    input: Annotated[tuple[str, ...], Parameter(name="--input")] = (),  # noqa: A002
    kernelbench: Path | None = None,
    json: bool = False,
) -> int:
    """List the built-in tasks, or `show NAME`: its shapes, slots and where it comes from.

    Parameters
    ----------
    action
        `list` or `show`.
    name
        A built-in name, file.py, file.py:Class, package.module:Class or kernelbench:1/23.
    input
        For the forms with a class: shape and dtype, such as 4096x1024:float32.
    kernelbench
        Folder that holds level1 to level4; default $KERNELBENCH_ROOT.
    json
        Print one JSON object.
    """
    from kernelwright.core.errors import TaskNotFound
    from kernelwright.tasks.catalog import builtin_names, describe, find_task

    if action == "list":
        listed = {entry: describe(entry) for entry in builtin_names()}
        if json:
            print_json({"tasks": listed})
        else:
            for entry, text in listed.items():
                print(f"{entry:18} {text}")
        return 0
    if action != "show" or name is None:
        raise TaskNotFound(name or action, "write `kernelwright tasks show NAME`")
    task = find_task(name, inputs=input, kernelbench=kernelbench)
    return _show(task, as_json=json)


def _show(task: object, *, as_json: bool) -> int:
    from dataclasses import asdict

    from kernelwright.core.task import Task
    from kernelwright.tasks.catalog import reference_spec
    from kernelwright.tasks.reference import load_reference
    from kernelwright.tasks.slots import read_signature

    assert isinstance(task, Task)
    reference = load_reference(reference_spec(task))
    signature = read_signature(reference, reference.default_shape)
    if as_json:
        print_json(task.model_dump(mode="json") | {"signature": asdict(signature)})
        return 0
    print(f"{task.name}  ({task.origin.kind}, {task.precision})")
    for dim in task.domain:
        default = reference.default_shape[dim.name]
        print(f"  {dim.name:10} {dim.low} to {dim.high}, timed at {default}")
    if task.one_shape:
        print("  judged at exactly the shapes of its inputs")
    for slot in signature.slots:
        print(f"  {slot.role:10} {slot.name:24} {slot.dtype} {list(slot.shape)}")
    for output in signature.outputs:
        print(f"  -> {output.role:7} {output.name:24} {output.dtype} {list(output.shape)}")
    for note in signature.notes:
        print(f"  note: {note}")
    return 0
