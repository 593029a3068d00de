"""The walls around a native worker: each is shown to be needed, and all of them to hold."""

from dataclasses import replace

import pytest
from native import DOUBLE, arena_of, floats, library

from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox import (
    NO_JAIL,
    Jail,
    Nursery,
    default_limits,
    probe_jail,
    run_self_test,
)
from program import own_children

LIMITS = replace(default_limits(), call_s=20.0, load_s=20.0)
needs_all = pytest.mark.skipif(probe_jail().tier != "A", reason="this machine has no tier A")


class Unmakeable(Jail):
    """Flags that unshare(2) refuses."""

    unshare_flags = 1  # type: ignore[assignment]


@needs_all
@pytest.mark.parametrize("worker", ["native", "python"])
def test_no_forbidden_act_succeeds_in_tier_a(worker):
    found = run_self_test(probe_jail(), worker)
    assert found.tier == "A"
    assert found.attempted >= 25
    assert found.succeeded == ()


@pytest.mark.parametrize("worker", ["native", "python"])
def test_the_acts_do_succeed_in_a_plain_process(worker):
    found = run_self_test(NO_JAIL, worker)
    assert found.tier == "D"
    kept = {"write_inputs", "inherited_descriptor"}  # by the memfd's seal and by closing
    assert not kept & set(found.succeeded)
    assert len(found.succeeded) > 30


@needs_all
@pytest.mark.parametrize(
    ("off", "opens"),
    [
        ("landlock", {"read_file", "read_passwd", "list_root"}),
        ("namespaces", {"pin_judge"}),
        ("seccomp", {"change_mode", "start_process", "internet_socket", "io_uring"}),
    ],
)
def test_each_wall_holds_something_the_others_do_not(off, opens):
    found = run_self_test(replace(probe_jail(), **{off: False}))
    assert opens <= set(found.succeeded)
    assert found.tier == ("C" if off == "landlock" else "D")


def test_a_jail_that_cannot_be_made_runs_nothing_and_leaves_nothing(tmp_path):
    built, before = library(tmp_path, DOUBLE), own_children()
    with Nursery(tmp_path / "cache", jail=Unmakeable(True, False, False)) as nursery:
        arena = arena_of(4, 4)
        with pytest.raises(SandboxBroke, match="Invalid argument"):
            nursery.spawn_native(
                built, "kernel", arena=arena, outputs=(floats(4, 4),), limits=LIMITS
            )
        arena.close()
    assert own_children() <= before


@needs_all
def test_a_constructor_finds_the_walls_already_up(tmp_path):
    note = tmp_path / "note"
    before = (
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void early() {{ open("{note}", O_CREAT, 0600); }}\n'
    )
    with Nursery(tmp_path / "cache") as nursery:
        arena = arena_of(4, 4)
        worker = nursery.spawn_native(
            library(tmp_path, DOUBLE, before=before),
            "kernel",
            arena=arena,
            outputs=(floats(4, 4),),
            limits=LIMITS,
        )
        with worker:
            assert not note.exists()
