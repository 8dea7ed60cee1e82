"""Bytecode of dataclasses' methods, kept on disk as that of modules is.

``dataclasses`` writes the methods of each class as text and compiles them, anew in each process: a quarter of what
it takes to import what judges. ``exec`` is what it does that with, a name that it looks up among its own first. What
stands there in its place executes the same text, compiled once.
"""

from __future__ import annotations

import dataclasses
import marshal
import sys
import zlib
from pathlib import Path
from typing import Any

from crossline.basics.errors import PermanentError
from crossline.basics.kernels.own_files import read_own, replace_own
from crossline.runtime.machine.cache_folder import cache_dir

FORMAT = b"crossline dataclass code 1\n"
# Texts of former versions stay until the file has so many bytes: then what is next to be kept begins it anew. All
# dataclasses of a version take less than half of that.
BYTES_MAX = 16 << 20
_CHECKSUM_BYTES = 4
_installed: list[DataclassCode] = []


class DataclassCode:
    """The code of texts: what the file ``path`` has, and what was compiled since it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = read_codes(path)
        self.compiled: dict[str, bytes] = {}

    def execute(self, text: str, outer: dict[str, Any] | None = None, inner: dict[str, Any] | None = None, /) -> None:
        """What ``exec`` does with ``text``; ``outer``, ``inner``: its global and local names."""
        body = self.kept.get(text)
        if body is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
            self.compiled[text] = marshal.dumps(code)
        else:
            code = marshal.loads(body)  # noqa: S302 - our own: read_own, and a checksum
        exec(code, outer, inner)  # noqa: S102 - what dataclasses asks for

    def keep(self) -> None:
        """Add to the file what was compiled, unless Python is told to write no bytecode; a full disk is no error."""
        if not self.compiled or sys.dont_write_bytecode:
            return
        found = {**read_codes(self.path), **self.compiled}  # others have added to it since
        content = encoded(found)
        replace_own(self.path, content if len(content) <= BYTES_MAX else encoded(self.compiled))
        self.kept, self.compiled = found, {}


def encoded(codes: dict[str, bytes]) -> bytes:
    """The bytes of a file."""
    body = marshal.dumps(codes)
    return FORMAT + zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "little") + body


def read_codes(path: Path) -> dict[str, bytes]:
    """The code in a file, by its text; empty where there is none that can be used."""
    content = read_own(path)
    start = len(FORMAT) + _CHECKSUM_BYTES
    if content is None or len(content) < start or not content.startswith(FORMAT):
        return {}
    if zlib.crc32(content[start:]) != int.from_bytes(content[len(FORMAT) : start], "little"):
        return {}
    found: dict[str, bytes] = marshal.loads(content[start:])  # noqa: S302 - as above
    return found


def code_path() -> Path | None:
    """The file of this Python; None: no folder takes one."""
    try:
        return cache_dir() / "python" / f"dataclasses-{sys.implementation.cache_tag}-{sys.hexversion:x}.code"
    except (PermanentError, RuntimeError):  # a user without a home, as containers have them
        return None


def keep_dataclass_code() -> None:
    """From now on in this process and in its forks: use what is kept. Call it before much is imported."""
    path = code_path()
    if path is not None and not _installed:
        _installed.append(DataclassCode(path))
        vars(dataclasses)["exec"] = _installed[0].execute


def write_dataclass_code() -> None:
    """Keep what was compiled since ``keep_dataclass_code``, once all is imported."""
    for each in _installed:
        each.keep()
