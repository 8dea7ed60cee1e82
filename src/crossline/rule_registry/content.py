"""Files that people write, as they were read: bytes, or why there are none; text, or what is wrong with it."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import Problem, RefusedError
from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.rule_registry.sources.origin import UNKNOWN, Origin

if TYPE_CHECKING:
    from crossline.settings.config import PipelineConfig

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class FileContent:
    """A file as it was read: its bytes, or why it could not be read. ``expected``: what would have been right.

    ``origin``: who put it there, where that is known.
    """

    data: bytes
    error: str | None = None
    expected: str = "a file that can be read"
    origin: Origin = field(default=UNKNOWN, compare=False)

    @cached_property
    def digest(self) -> str:
        """Of the content."""
        return digest_of(self.data if self.error is None else self.error.encode())


def digest_of(data: bytes) -> str:
    """128 bits of BLAKE2b, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def content_in_folder(path: Path, bytes_max: int) -> FileContent | None:
    """What lies at ``path``, None where nothing does. Only a file is opened: a pipe would be waited for."""
    try:
        problem = _not_a_file(path.stat().st_mode)
        if problem is not None:
            return FileContent(b"", problem)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            problem = _not_a_file(os.fstat(file.fileno()).st_mode)
            return FileContent(b"", problem) if problem is not None else _bounded(file.read(bytes_max + 1), bytes_max)
    except FileNotFoundError:
        return FileContent(b"", "a link to what is not there") if path.is_symlink() else None
    except OSError as error:
        return FileContent(b"", error.strerror or str(error))


def content_of(path: Path, bytes_max: int = SIZE_MAX) -> FileContent:
    """The file that a person named; a pipe is read to its end. Raises UsageError where it cannot be read."""
    try:
        return _read(path, bytes_max)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"{_printable(str(path))} cannot be read: {reason}") from None


def is_folder(path: Path) -> bool:
    """Whether ``path`` is a folder; no where it is unknown, as with a name that is too long."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for some names


def read_text(path: str | Path) -> str:
    """The text of a file that a person named.

    Raises UsageError where it cannot be read, RefusedError with the line where it is no UTF-8, or too large.
    """
    return text_of(str(path), content_of(Path(path)))


def read_pipeline(path: str | Path) -> PipelineConfig:
    """The pipeline file at ``path``, checked whole with its stream file; relative paths are still as written.

    Raises as ``read_text``, and RefusedError with all that is wrong in it.
    """
    from crossline.settings.config import load_pipeline  # noqa: PLC0415 - who reads rules alone need not wait for it

    folder = Path(path).parent
    return load_pipeline(read_text(path), str(path), lambda name: text_of(name, _read(folder / name, SIZE_MAX)))


def read_pipeline_in_place(path: str | Path) -> PipelineConfig:
    """As ``read_pipeline``, its paths joined to its folder."""
    from crossline.settings.config import in_folder  # noqa: PLC0415 - as above

    return in_folder(read_pipeline(path), str(Path(path).parent))


def text_of(source: str, content: FileContent) -> str:
    """The text of a file; raises RefusedError where it could not be read, or is not UTF-8."""
    if content.error is not None:
        raise refused(source, content.error, content.expected)
    try:
        return content.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.data.count(b"\n", 0, error.start) + 1
        raise refused(source, f"byte 0x{error.object[error.start]:02x}", "text in UTF-8", line) from None


def refused(source: str, found: str, expected: str, line: int = 1) -> RefusedError:
    """The refusal of a file for one reason."""
    return RefusedError([Problem(source, line, "", found, expected)])


def _read(path: Path, bytes_max: int) -> FileContent:
    with path.open("rb") as file:
        return _bounded(file.read(bytes_max + 1), bytes_max)


def _bounded(data: bytes, bytes_max: int) -> FileContent:
    return FileContent(data) if len(data) <= bytes_max else FileContent(b"", f"more than {bytes_max:,} bytes")


def _not_a_file(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no file")


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
