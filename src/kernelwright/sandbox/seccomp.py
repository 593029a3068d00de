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
_CLONE_NAMESPACES = 0x7E020080  # linux/sched.h: user, mount, PID, network, IPC, UTS, cgroup, time
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
_CLONE, _PRCTL, _OPENAT, _PRLIMIT, _CLONE3 = 56, 157, 257, 302, 435
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_ALSO_WHILE_WORKING = {
    "open": 2,
    "lstat": 6,
    "poll": 7,
    "ioctl": 16,
    "pwrite64": 18,
    "pipe": 22,
    "select": 23,
    "msync": 26,
    "mincore": 27,
    "dup": 32,
    "dup2": 33,
    "getitimer": 36,
    "alarm": 37,
    "setitimer": 38,
    "sendfile": 40,
    "fork": 57,
    "vfork": 58,
    "execve": 59,
    "wait4": 61,
    "kill": 62,  # a PID namespace leaves only its own processes in reach
    "fcntl": 72,
    "flock": 73,
    "fsync": 74,
    "fdatasync": 75,
    "truncate": 76,
    "ftruncate": 77,
    "getdents": 78,
    "getcwd": 79,
    "chdir": 80,
    "fchdir": 81,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "creat": 85,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "umask": 95,
    "getpgrp": 111,
    "setsid": 112,
    "getppid": 110,
    "setpgid": 109,
    "getpgid": 121,
    "getsid": 124,
    "rt_sigpending": 127,
    "rt_sigtimedwait": 128,
    "rt_sigsuspend": 130,
    "statfs": 137,
    "fstatfs": 138,
    "arch_prctl": 158,
    "setrlimit": 160,
    "sync": 162,
    "readahead": 187,
    "epoll_create": 213,
    "getdents64": 217,
    "timer_create": 222,
    "timer_settime": 223,
    "timer_delete": 226,
    "epoll_wait": 232,
    "epoll_ctl": 233,
    "waitid": 247,
    "openat": 257,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "readlinkat": 267,
    "faccessat": 269,
    "pselect6": 270,
    "ppoll": 271,
    "sync_file_range": 277,
    "epoll_pwait": 281,
    "timerfd_create": 283,
    "fallocate": 285,
    "eventfd2": 290,
    "epoll_create1": 291,
    "dup3": 292,
    "pipe2": 293,
    "preadv": 295,
    "pwritev": 296,
    "renameat2": 316,
    "copy_file_range": 326,
    "pkey_mprotect": 329,
    "close_range": 436,
    "faccessat2": 439,
}
"""What an interpreter and the compilers it starts need as well; the files are Landlock's matter."""
_PRETENDED = {"chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "utime": 132,
              "utimes": 235, "futimesat": 261, "utimensat": 280}  # fmt: skip
"""Landlock knows no right for these, so they do nothing and say that they did: linkers ask."""


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
        *_native_calls_only(),
        *_case(_CLONE3, [_deny(errno.ENOSYS)]),
        *_case(_CLONE, _where(0, _JUMP_ANY_BIT, _CLONE_THREAD, allowed=True)),
        *_case(_OPENAT, _where(2, _JUMP_ANY_BIT, _O_WRITES, allowed=False)),
        *_case(_PRLIMIT, _where(0, _JUMP_EQUAL, 0, allowed=True)),
    ]
    for number in _ALLOWED.values():
        program += _case(number, [_step(_RETURN, _ALLOW)])
    return b"".join([*program, _deny(errno.EPERM)])


@functools.cache
def working_filter() -> bytes:
    """For a worker that runs Python and may compile: programs, pipes and files, but no sockets.

    `clone` may make processes, but no namespaces.
    """
    program = [
        *_native_calls_only(),
        *_case(_CLONE3, [_deny(errno.ENOSYS)]),
        *_case(_CLONE, _where(0, _JUMP_ANY_BIT, _CLONE_NAMESPACES, allowed=False)),
        *_case(_PRLIMIT, _where(0, _JUMP_EQUAL, 0, allowed=True)),
        *_case(_PRCTL, _unless(0, _PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP)),
    ]
    for number in _PRETENDED.values():
        program += _case(number, [_deny(0)])
    for number in (_ALLOWED | _ALSO_WHILE_WORKING).values():
        program += _case(number, [_step(_RETURN, _ALLOW)])
    return b"".join([*program, _deny(errno.EPERM)])


def _native_calls_only() -> list[bytes]:
    """Leaves the number of the system call in the accumulator."""
    return [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_EQUAL, _X86_64, yes=1),
        _deny(errno.EPERM),
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_ABOVE, _X32, no=1),
        _deny(errno.EPERM),
    ]


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


def _unless(argument: int, *values: int) -> list[bytes]:
    """Denies the call where the low half of an argument is one of the values."""
    steps = [_step(_LOAD, _ARGUMENTS_AT + 8 * argument)]
    for value in values:
        steps += [_step(_JUMP_EQUAL, value, no=1), _deny(errno.EPERM)]
    return [*steps, _step(_RETURN, _ALLOW)]
