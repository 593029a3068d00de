"""Landlock: a process gives up the files it does not need. By ctypes; libc has no wrappers.

Source: linux/landlock.h and Documentation/userspace-api/landlock.rst; the numbers of the system
calls are the same on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_IOCTL_DEV = 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights over files each version of the interface knows; 16 from the fifth on."""
SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/dev/urandom"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/proc/cpuinfo", "/proc/meminfo"),
)
"""What loaders, interpreters and compilers read; nothing of the user's."""
_NET_SINCE, _SCOPE_SINCE = 4, 6
_NET = 0b11  # bind and connect TCP
_SCOPE = 0b11  # abstract sockets and signals reach no process outside
_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Version of the kernel's interface; 0 where it has none or has it switched off."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def make_ruleset(
    *,
    read: Iterable[Path | str] = (),
    write: Iterable[Path | str] = (),
    devices: Iterable[Path | str] = (),
) -> int:
    """A descriptor of rules under which only these paths exist; the caller closes it.

    Nothing is written outside `write`, no TCP port is opened, and no signal leaves.

    Args:
        read: files and folders that may be read and executed; absent ones are passed over.
        write: folders in which anything may be done.
        devices: device nodes that may be opened and controlled by ioctl.

    Raises:
        OSError: the kernel refuses.
    """
    version = landlock_version()
    rights = (1 << _FS_RIGHTS.get(version, 16)) - 1
    fields = [rights]
    if version >= _NET_SINCE:
        fields.append(_NET)
    if version >= _SCOPE_SINCE:
        fields.append(_SCOPE)
    attributes = struct.pack(f"<{len(fields)}Q", *fields)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path in read:
        _allow(ruleset, Path(path), _EXECUTE | _READ_FILE | _READ_DIR)
    for path in write:
        _allow(ruleset, Path(path), rights & ~_IOCTL_DEV)
    for path in devices:
        _allow(ruleset, Path(path), rights & (_OF_FILES | _IOCTL_DEV))
    return ruleset


def restrict_self(ruleset: int) -> None:
    """Puts the rules on the calling thread and whatever it starts, for good; closes them.

    Raises:
        OSError: the kernel refuses.
    """
    try:
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if path.is_dir() else rights & (_OF_FILES | _IOCTL_DEV)
        rule = struct.pack("<Qi", allowed, fd)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
