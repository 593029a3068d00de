"""The system calls a native worker keeps, as a classic BPF program.

An allow-list: what is not named here fails with EPERM, so a call that the next kernel brings is
denied as well. Sources: Documentation/userspace-api/seccomp_filter.rst, linux/filter.h,
arch/x86/entry/syscalls/syscall_64.tbl.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X86_64 = 0xC000003E
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_O_WRITES = 0o3 | 0o100 | 0o1000 | 0o2000  # accmode, creat, trunc, append

_ALLOWED = {
    "read": 0,
    "write": 1,
    "close": 3,
    "stat": 4,
    "fstat": 5,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "pread64": 17,
    "readv": 19,
    "writev": 20,
    "access": 21,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "nanosleep": 35,
    "getpid": 39,
    "exit": 60,
    "uname": 63,
    "readlink": 89,
    "gettimeofday": 96,
    "getrlimit": 97,
    "getrusage": 98,
    "sysinfo": 99,
    "times": 100,
    "getuid": 102,
    "getgid": 104,
    "geteuid": 107,
    "getegid": 108,
    "sigaltstack": 131,
    "gettid": 186,
    "time": 201,
    "futex": 202,
    "sched_setaffinity": 203,  # libgomp places its threads; a PID namespace hides all others
    "sched_getaffinity": 204,
    "set_tid_address": 218,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_getres": 229,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "tgkill": 234,  # abort()
    "newfstatat": 262,
    "set_robust_list": 273,
    "getcpu": 309,
    "getrandom": 318,
    "membarrier": 324,
    "statx": 332,
    "rseq": 334,
}
_CLONE, _OPENAT, _PRLIMIT, _CLONE3 = 56, 257, 302, 435


def seccomp_usable() -> bool:
    """Whether this machine's system calls are the ones listed here."""
    return platform.machine() == "x86_64"


@functools.cache
def serving_filter() -> bytes:
    """For a process that computes and answers: threads yes; processes, sockets and writes no.

    `clone3` hides its flags behind a pointer, so it says that it does not exist and glibc falls
    back to `clone`, whose flags can be seen.
    """
    program = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_EQUAL, _X86_64, yes=1),
        _deny(errno.EPERM),
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_ABOVE, _X32, no=1),
        _deny(errno.EPERM),
        *_case(_CLONE3, [_deny(errno.ENOSYS)]),
        *_case(_CLONE, _where(0, _JUMP_ANY_BIT, _CLONE_THREAD, allowed=True)),
        *_case(_OPENAT, _where(2, _JUMP_ANY_BIT, _O_WRITES, allowed=False)),
        *_case(_PRLIMIT, _where(0, _JUMP_EQUAL, 0, allowed=True)),
    ]
    for number in _ALLOWED.values():
        program += _case(number, [_step(_RETURN, _ALLOW)])
    return b"".join([*program, _deny(errno.EPERM)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _deny(code: int) -> bytes:
    return _step(_RETURN, _ERROR | code)


def _case(number: int, steps: list[bytes]) -> list[bytes]:
    """What happens to one system call; `steps` must return."""
    return [_step(_JUMP_EQUAL, number, no=len(steps)), *steps]


def _where(argument: int, test: int, value: int, *, allowed: bool) -> list[bytes]:
    """Allows, or denies, the call where the low half of an argument passes the test."""
    answers = [_step(_RETURN, _ALLOW), _deny(errno.EPERM)]
    return [
        _step(_LOAD, _ARGUMENTS_AT + 8 * argument),
        _step(test, value, no=1),
        *(answers if allowed else reversed(answers)),
    ]
