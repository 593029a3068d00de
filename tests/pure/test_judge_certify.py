"""A T3 Verdict certifies only what every wall has stood for."""

from __future__ import annotations

from typing import Any

import pytest

import records
from kernelwright.core.errors import CompilerMissing, SandboxBroke
from kernelwright.core.verdict import Accepted, LibraryUse, NotTimed, Rejected, Share
from kernelwright.judge.certify import find_obstacle
from kernelwright.judge.defences import ALL_DEFENCES, Defences
from kernelwright.sandbox import SelfTest

USE = LibraryUse(looks=9, objects=(Share(name="k.so", share=1.0),), functions=(), operators=())
RIGHT = Accepted(correctness=records.CORRECTNESS, timing=NotTimed(), libraries=USE)
WELL: dict[str, Any] = {
    "sandbox": "A",
    "self_test": lambda: SelfTest("A", 97, ()),
    "defences": ALL_DEFENCES,
    "oracle": "strong",
    "usual_effort": True,
}


def _broken() -> SelfTest:
    raise SandboxBroke("it died")


def _no_compiler() -> SelfTest:
    raise CompilerMissing("cc", "install gcc")


def test_nothing_is_in_the_way_where_all_is_well() -> None:
    assert find_obstacle(RIGHT, **WELL) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sandbox": "D"}, "plain process"),
        ({"sandbox": "C"}, "read files"),
        ({"defences": Defences(fence=False, freeze=False)}, "without fence, freeze"),
        ({"oracle": "weak"}, "oracle is weak"),
        ({"oracle": "unknown"}, "oracle is weak"),
        ({"usual_effort": False}, "own effort"),
        ({"self_test": lambda: SelfTest("A", 97, ("open_socket",))}, "does not hold: open_socket"),
        ({"self_test": _broken}, "could not be tested"),
        ({"self_test": _no_compiler}, "could not be tested"),
    ],
)
def test_each_open_wall_is_named(change: dict[str, Any], says: str) -> None:
    assert says in str(find_obstacle(RIGHT, **(WELL | change)))


def test_only_what_was_accepted_and_seen_at_work_is_certified() -> None:
    refused = Rejected(stage="verify", reason="wrong")
    assert find_obstacle(refused, **WELL) == "nothing was accepted"
    unseen = RIGHT.model_copy(update={"libraries": None})
    assert "found it at work" in str(find_obstacle(unseen, **WELL))
