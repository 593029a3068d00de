"""Names of the functions in a shared object, from its ELF symbol table.

Written for files that may be hostile: whatever does not parse has no names. Format: System V ABI,
Object Files.
"""

from __future__ import annotations

import functools
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_SYMTAB, _DYNSYM, _LOAD, _FUNC = 2, 11, 1, 2
_LARGEST_TABLE = 256 << 20


@dataclass(frozen=True, slots=True)
class Symbols:
    """Functions by rising address."""

    starts: np.ndarray
    ends: np.ndarray
    names: np.ndarray
    """Offsets into `text`."""
    text: bytes
    segments: tuple[tuple[int, int, int], ...]
    """File offset, size in the file and address of each loaded part."""

    def name_at(self, offset: int) -> str:
        """The mangled name of the function that a file offset is in; empty where none is known."""
        address = next((offset - o + a for o, n, a in self.segments if o <= offset < o + n), None)
        if address is None or not self.starts.size:
            return ""
        at = int(np.searchsorted(self.starts, address, side="right")) - 1
        if at < 0 or address >= self.ends[at]:
            return ""
        start = int(self.names[at])
        return self.text[start : self.text.find(b"\0", start)].decode(errors="replace")


_NONE = np.empty(0, dtype=np.uint64)
NO_SYMBOLS = Symbols(_NONE, _NONE, _NONE, b"", ())


def symbols_of(path: str, inode: int) -> Symbols:
    """The functions of a mapped file; none where this machine has another file at that path."""
    try:
        found = Path(path).stat()
    except OSError:
        return NO_SYMBOLS
    if found.st_ino != inode or not stat.S_ISREG(found.st_mode):
        return NO_SYMBOLS
    return _read(path, inode, found.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _read(path: str, inode: int, mtime_ns: int) -> Symbols:
    try:
        return _parse(Path(path))
    except (OSError, ValueError, struct.error, IndexError, OverflowError, MemoryError):
        return NO_SYMBOLS


def _parse(path: Path) -> Symbols:
    with path.open("rb") as file:

        def at(offset: int, size: int) -> bytes:
            if size > _LARGEST_TABLE:
                raise ValueError(f"a table of {size} bytes")
            file.seek(offset)
            return file.read(size)

        head = _HEADER.unpack(at(0, _HEADER.size))
        if head[0][:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a little-endian 64-bit ELF file")
        programs = _SEGMENT.iter_unpack(at(head[5], head[10] * _SEGMENT.size))
        segments = tuple((p[2], p[5], p[3]) for p in programs if p[0] == _LOAD)
        sections = list(_SECTION.iter_unpack(at(head[6], head[12] * _SECTION.size)))
        tables = {section[1]: section for section in sections if section[1] in (_SYMTAB, _DYNSYM)}
        table = tables.get(_SYMTAB) or tables.get(_DYNSYM)
        if table is None:
            return NO_SYMBOLS
        whole = np.frombuffer(
            at(table[4], table[5] // _SYMBOL.itemsize * _SYMBOL.itemsize), _SYMBOL
        )
        strings = sections[table[6]]
        text = at(strings[4], strings[5])
    functions = whole[((whole["info"] & 15) == _FUNC) & (whole["size"] > 0)]
    functions = functions[np.argsort(functions["value"], kind="stable")]
    ends = functions["value"] + functions["size"]
    return Symbols(functions["value"].copy(), ends, functions["name"].copy(), text, segments)
