"""What is read of a stream's files: which, in what form, and how they are cut."""

from __future__ import annotations

import os
from dataclasses import dataclass

from crossline.basics.errors import UsageError
from crossline.io.files.lines import Unended
from crossline.io.files.patterns import matching_files

FORMS = ("json", "csv", "parquet")
CHUNK_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileInput:
    """Files of one stream: patterns, folders or names, and their format."""

    stream: str
    patterns: tuple[str, ...]
    form: str

    @property
    def whole(self) -> bool:
        """Whether a file is one piece that cannot be cut."""
        return self.form == "parquet"


def patterns_of(files: FileInput, *, there: bool) -> list[str]:
    """The patterns as absolute paths.

    Raises UsageError where one cannot be a path, or, with ``there``, has no file, and where no reader has their format.
    """
    if files.form not in FORMS:
        raise UsageError(
            f"stream {files.stream}: files of format {files.form} are not in this version; expected one of "
            f"{', '.join(FORMS)}; where files hold what a topic held, give them a stream file that declares this"
        )
    for pattern in files.patterns:
        if "\0" in pattern:
            raise UsageError(f"path {pattern!r} of stream {files.stream}: found a NUL, expected a path without one")
    patterns = [os.path.abspath(p) for p in files.patterns]  # noqa: PTH100 - a link in the name must stay
    empty = [p for p in patterns if not matching_files([p])] if there else []
    if empty:
        raise UsageError(f"no file matches {', '.join(empty)}; expected files of stream {files.stream}")
    return patterns


def chunk_bytes(batch_bytes: int, cores: int) -> int:
    """How large chunks are, so that each core has one of a batch."""
    return max(1, min(CHUNK_BYTES_MAX, batch_bytes // cores))


def unended_of(form: str, *, complete: bool, drain: bool) -> Unended:
    """What becomes of last lines without an end. A CSV line does not show whether it is whole."""
    if complete:
        return "counts"
    return "document" if drain and form == "json" else "waits"
