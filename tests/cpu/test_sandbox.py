"""One test per hazard and per way a worker can misbehave; all on the native runner."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native import DOUBLE, arena_of, floats, library

from kernelwright.sandbox import NO_JAIL, Call, Failure, Nursery, Worker, default_limits

LIMITS = replace(default_limits(), call_s=20.0, load_s=20.0)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    with Nursery(tmp_path_factory.mktemp("cache")) as nursery:
        yield nursery


@pytest.fixture(scope="module")
def unwalled(tmp_path_factory):
    """Plain processes: what else stands in a candidate's way when nothing keeps it from acting."""
    with Nursery(tmp_path_factory.mktemp("cache"), jail=NO_JAIL) as nursery:
        yield nursery


def start(nursery, built, shape=(64, 64), limits=LIMITS, *, fenced=False):
    arena = arena_of(*shape)
    worker = nursery.spawn_native(
        built, "kernel", arena=arena, outputs=(floats(*shape),), limits=limits, fenced=fenced
    )
    return arena, worker


def run(arena, worker, x):
    arena.write(0, x.view(np.uint8).ravel())
    return worker.call()


def read(worker, call, shape):
    out = np.empty(4 * int(np.prod(shape)), dtype=np.uint8)
    assert worker.read_memory(call.reply.outputs[0].address, out)
    return out.view(np.float32).reshape(shape)


def test_a_call_computes_on_the_inputs_just_written(nursery, tmp_path):
    arena, worker = start(nursery, library(tmp_path, DOUBLE))
    with worker:
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((64, 64), dtype=np.float32)
            call = run(arena, worker, x)
            assert isinstance(call, Call)
            np.testing.assert_array_equal(read(worker, call, (64, 64)), 2 * x)


def test_inputs_cannot_be_written(nursery, tmp_path):
    arena, worker = start(nursery, library(tmp_path, "((float*)x)[0] = 1;"))
    failure = run(arena, worker, np.zeros((64, 64), np.float32))
    assert failure == Failure("crashed", "it was ended by SIGSEGV")


def test_inputs_cannot_be_made_writable(nursery, tmp_path):
    body = "y[0] = mprotect((void*)x, 4096, PROT_READ | PROT_WRITE);" + "(void)n;"
    built = library(tmp_path, body, before="#include <sys/mman.h>\n")
    arena, worker = start(nursery, built)
    with worker:
        call = run(arena, worker, np.zeros((64, 64), np.float32))
        assert read(worker, call, (64, 64))[0, 0] == -1


def test_fast_math_at_link_time_does_not_flush_denormals(nursery, tmp_path):
    arena, worker = start(nursery, library(tmp_path, DOUBLE, "-ffast-math"))
    with worker:
        x = np.full((64, 64), 1e-40, np.float32)
        call = run(arena, worker, x)
        np.testing.assert_array_equal(read(worker, call, (64, 64)), 2 * x)


def test_a_large_output_costs_no_page_faults_once_warm(nursery, tmp_path):
    shape = (4096, 4096)
    _arena, worker = start(nursery, library(tmp_path, "y[0] = 0; memset(y, 1, 4 * n);"), shape)
    with worker:
        for _ in range(3):
            last = worker.call(()).seq
        faults = []
        for _ in range(4):
            before = minor_faults(worker.pid)
            last = worker.call((last,)).seq
            faults.append(minor_faults(worker.pid) - before)
    assert min(faults) < 100  # 64 MiB mapped afresh would be 16,384


def minor_faults(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


def test_openmp_threads_work_and_stand_still_between_calls(nursery, tmp_path):
    body = '_Pragma("omp parallel for")\n' + DOUBLE
    arena, worker = start(nursery, library(tmp_path, body), (512, 512))
    with worker:
        x = np.ones((512, 512), np.float32)
        call = run(arena, worker, x)
        assert (read(worker, call, (512, 512)) == 2).all()
        before = worker.cpu_ns()
        time.sleep(0.2)
        assert worker.cpu_ns() == before


def test_a_thread_that_works_after_the_reply_is_frozen_with_the_rest(nursery, tmp_path):
    before = """
    #include <pthread.h>
    static void* spin(void*) { for (;;) {} }
    """
    body = DOUBLE + "pthread_t t; pthread_create(&t, 0, spin, 0);"
    arena, worker = start(nursery, library(tmp_path, body, "-lpthread", before=before))
    with worker:
        run(arena, worker, np.ones((64, 64), np.float32))
        used = worker.cpu_ns()
        time.sleep(0.2)
        assert worker.cpu_ns() == used


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("for (;;) {}", "hung", "no reply within 1 s"),
        ("abort();", "crashed", "abort() was called"),
        ("exit(0);", "crashed", "exited with status 0"),
        ("__builtin_trap();", "crashed", "SIGILL"),
        ('write(4, "x", 1); sleep(9);', "hung", ""),
        ("char j[9999] = {0}; write(4, j, 9999); sleep(9);", "garbled", "magic"),
    ],
)
def test_a_bad_reply_is_a_failure_of_the_worker(nursery, tmp_path, body, kind, says):
    built = library(tmp_path, body, before="#include <signal.h>\n")
    limits = replace(LIMITS, call_s=1.0)
    arena, worker = start(nursery, built, limits=limits)
    failure = run(arena, worker, np.zeros((64, 64), np.float32))
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert says in failure.detail
    assert not Path(f"/proc/{worker.pid}").exists()


def test_what_does_not_load_says_why(nursery, tmp_path):
    built = library(tmp_path, DOUBLE)
    arena = arena_of(4, 4)
    failure = nursery.spawn_native(
        built, "absent", arena=arena, outputs=(floats(4, 4),), limits=LIMITS
    )
    assert failure == Failure("load_failed", "the shared object does not define absent")


def test_printing_without_end_fills_no_disk(nursery, tmp_path):
    body = 'for (int i = 0; i < 100000; i++) puts("kilobytes of noise "); ' + DOUBLE
    built = library(tmp_path, "signal(SIGXFSZ, SIG_IGN);" + body, before="#include <signal.h>\n")
    arena, worker = start(nursery, built)
    with worker:
        call = run(arena, worker, np.ones((64, 64), np.float32))
        assert isinstance(call, Call)
        assert worker.log.stat().st_size <= LIMITS.file_bytes


def test_eating_memory_ends_in_the_worker(nursery, tmp_path):
    body = "char* p = (char*)malloc(1L << 33); y[0] = p ? 1 : 0;"
    limits = replace(LIMITS, memory_bytes=1 << 30)
    arena, worker = start(nursery, library(tmp_path, body), limits=limits)
    with worker:
        call = run(arena, worker, np.ones((64, 64), np.float32))
        assert read(worker, call, (64, 64))[0, 0] == 0


@pytest.mark.parametrize("escape", ["", "setsid();", "if (fork()) _exit(0); setsid();"])
def test_no_child_process_outlives_the_worker(unwalled, tmp_path, escape):
    note = tmp_path / "pid"
    body = (
        "if (fork() == 0) {" + escape + f'FILE* f = fopen("{note}", "w");'
        'fprintf(f, "%d", (int)getpid()); fclose(f); for (;;) pause(); }'
        f'while (access("{note}", F_OK)) usleep(1000); usleep(20000);' + DOUBLE
    )
    arena, worker = start(unwalled, library(tmp_path, body))
    run(arena, worker, np.ones((64, 64), np.float32))
    child = int(note.read_text())
    assert worker.kill() >= 1
    assert not Path(f"/proc/{child}").exists()


def test_workers_die_with_the_judge(tmp_path):
    built = library(tmp_path, "for (;;) {}")
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from kernelwright.sandbox import Nursery, default_limits
from native import arena_of, floats
nursery = Nursery(Path({str(tmp_path)!r})); arena = arena_of(4, 4)
worker = nursery.spawn_native(Path({str(built)!r}), "kernel", arena=arena,
                              outputs=(floats(4, 4),), limits=default_limits())
print(worker.pid, flush=True); worker.call()
"""
    judge = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(judge.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    time.sleep(0.1)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    deadline = time.monotonic() + 5
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running(pid)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_worker_inherits_no_descriptor_and_no_environment(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_SECRET", "seed")
    body = (
        'y[0] = getenv("KERNELWRIGHT_SECRET") != 0;'
        "int open = 0; for (int fd = 5; fd < 1024; fd++) open += fcntl(fd, F_GETFD) != -1;"
        "y[1] = open; (void)x; (void)n;"
    )
    extra = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(extra, True)
    arena, worker = start(nursery, library(tmp_path, body, before="#include <fcntl.h>\n"))
    with worker:
        call = run(arena, worker, np.zeros((64, 64), np.float32))
        out = read(worker, call, (64, 64))
    os.close(extra)
    assert out[0, 0] == 0
    assert out[0, 1] == 0


def test_a_closed_worker_is_gone(nursery, tmp_path):
    _, worker = start(nursery, library(tmp_path, DOUBLE))
    assert isinstance(worker, Worker)
    worker.kill()
    assert worker.kill() == 0
    assert not Path(f"/proc/{worker.pid}").exists()


@pytest.mark.parametrize(
    "body",
    [
        DOUBLE.replace("i < n", "i <= n"),
        "for (long i = 0; i < n; i++) y[i] = x[i + 1];",
        "volatile float* s = (float*)malloc(4 * n - 64); s[n - 1] = 1; memcpy(y, x, 4 * n);",
        "volatile float* s = (float*)calloc(n, 2); s[n] = 1; memcpy(y, x, 4 * n);",
        "volatile float* s = (float*)malloc(4 * n); free((void*)s); y[0] = s[0];",
    ],
)
def test_behind_a_fence_what_runs_past_the_end_crashes(nursery, tmp_path, body):
    x = np.ones((64, 64), np.float32)
    arena, worker = start(nursery, library(tmp_path, body), fenced=True)
    assert run(arena, worker, x) == Failure("crashed", "it was ended by SIGSEGV")


@pytest.mark.parametrize("end", ["s = (float*)realloc(s, 8); free(s);", "free(s);"])
def test_behind_a_fence_a_block_that_was_overrun_is_found_when_freed(nursery, tmp_path, end):
    body = "float* s = (float*)malloc(4 * n + 4); ((volatile float*)s)[n + 1] = 1;" + end
    body += "memcpy(y, x, 4 * n);"
    arena, worker = start(nursery, library(tmp_path, body), fenced=True)
    found = run(arena, worker, np.ones((64, 64), np.float32))
    assert isinstance(found, Failure)
    assert found.kind == "crashed"
    assert "past the end of a block" in found.detail


def test_behind_a_fence_honest_kernels_work(nursery, tmp_path):
    body = """
    std::vector<float> own(n, 2.0f);
    float* more = (float*)realloc(realloc(malloc(4), 8), 4 * n);
#pragma omp parallel for
    for (long i = 0; i < n; i++) {
      float* little = (float*)aligned_alloc(64, 64);
      little[15] = own[i]; more[i] = little[15] * x[i]; free(little);
    }
    memcpy(y, more, 4 * n); free(more);
    """
    built = library(tmp_path, body, before="#include <vector>\n")
    arena, worker = start(nursery, built, (63, 65), fenced=True)
    with worker:
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((63, 65), dtype=np.float32)
            call = run(arena, worker, x)
            assert isinstance(call, Call)
            np.testing.assert_array_equal(read(worker, call, (63, 65)), 2 * x)


def test_behind_a_fence_unwritten_memory_is_not_a_number(nursery, tmp_path):
    body = "float* s = (float*)malloc(4 * n); for (long i = 0; i < n; i++) y[i] = s[i];"
    arena, worker = start(nursery, library(tmp_path, body), fenced=True)
    with worker:
        call = run(arena, worker, np.ones((64, 64), np.float32))
        assert np.isnan(read(worker, call, (64, 64))).all()
