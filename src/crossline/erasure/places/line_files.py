"""Files of JSON lines: of sinks, of decisions on all records, of the API's records.

A file whose lines are known by their position (``holds_positions``) keeps its length: a line that goes becomes blanks,
and a line that changes is filled up with blanks, or gives up what does not fit. Other files lose the lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.erasure.place import Counts
from crossline.erasure.rows import GONE, decoded, learn, parsed_bytes, treat_packed
from crossline.erasure.subject import Subject, dumped, parsed
from crossline.erasure.torn import has_trace, may_be_torn
from crossline.io.files.sync import sync_path
from crossline.io.sinks.outfile import INDEX_SUFFIX
from crossline.lake.writing.side_logs import ERASED_LINE

TEMPORARY = ".erasing"
_PACKED = b'"raw_base64"'  # a letter whose bytes are no text


@dataclass(slots=True)
class LinesPlace:
    """JSON lines in files that the pipeline writes.

    Attributes:
        name: The place's name.
        paths: Gives the files that are there now.
        stream: The stream of the lines where they do not name it.
        id_field: The field of a record's id, where lines are records.
        holds_positions: Whether positions of lines are kept.
        blank: Whether a line that goes is blank; else it is the line ``ERASED_LINE``.
        after: Called with each file that was written anew.
    """

    name: str
    paths: Callable[[], Iterable[Path]]
    stream: str | None = None
    id_field: str | None = None
    holds_positions: bool = False
    blank: bool = False
    after: Callable[[Path], None] = lambda _: None
    needs_stop: bool = True

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        total = Counts()
        for path in self._there():
            counts = Counts()
            for _, found in self._lines(subject, path):
                counts += found
            total += counts.of_file(path.stat().st_size)
        return total

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. A file is replaced as a whole: after a kill it is as before, or done."""
        total = Counts()
        for path in self._there():
            path.with_name(path.name + TEMPORARY).unlink(missing_ok=True)
            counts = self._counted(subject, path)
            if counts.found:
                size = path.stat().st_size
                self._rewrite(subject, path)
                counts = counts.of_file(size)
            self.after(path)
            total += counts
        return total

    def _counted(self, subject: Subject, path: Path) -> Counts:
        counts = Counts()
        for _, found in self._lines(subject, path):
            counts += found
        return counts

    def _rewrite(self, subject: Subject, path: Path) -> None:
        draft = path.with_name(path.name + TEMPORARY)
        with draft.open("wb") as file:
            for line, _ in self._lines(subject, path):
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(path.stat().st_mode & 0o7777)
        if not self.holds_positions:  # the ids of its lines; made again from the file
            for suffix in ("", "-wal", "-shm"):
                path.with_name(f"{path.name}{INDEX_SUFFIX}{suffix}").unlink(missing_ok=True)
        draft.replace(path)
        sync_path(path.parent)

    def _there(self) -> list[Path]:
        return [path for path in self.paths() if path.is_file()]

    def _lines(self, subject: Subject, path: Path) -> Iterator[tuple[bytes, Counts]]:
        """Each line as it is from now on."""
        with path.open("rb") as file:
            for line in file:
                body = line.rstrip(b"\r\n")
                after = self._line(subject, body)
                end = line[len(body) :]
                if after is GONE:
                    yield self._place_of(body) + end if self.holds_positions else b"", Counts(gone=1)
                elif after is body:
                    yield line, Counts(kept=int(body.strip() not in {b"", ERASED_LINE}))
                else:
                    yield (_filled(after, len(body)) if self.holds_positions else after) + end, Counts(changed=1)

    def _line(self, subject: Subject, body: bytes) -> Any:
        text = decoded(body)
        if not (text is None or _PACKED in body or subject.suspects(text) or may_be_torn(body, text)):
            return body
        row = parsed_bytes(body)
        if not isinstance(row, dict):
            return GONE if has_trace(subject, body) else body
        after = treat_packed(subject, row, self.stream)
        if after is GONE:
            self._learn(subject, row)
            return GONE
        return body if after is row else dumped(after).encode()

    def _learn(self, subject: Subject, row: dict[str, Any]) -> None:
        learn(subject, row, self.stream)
        if self.id_field is not None and any(key.within(row) for key in subject.keys):
            found: Any = row
            for name in self.id_field.split("."):
                found = found.get(name) if isinstance(found, dict) else None
            subject.add(self.stream, [found])

    def _place_of(self, body: bytes) -> bytes:
        if self.blank or len(body) < len(ERASED_LINE):
            return b" " * len(body)
        return ERASED_LINE.ljust(len(body))


def _filled(body: bytes, size: int) -> bytes:
    """A line of the same length: pseudonyms are longer than what they replace, so texts may have to go."""
    if len(body) > size:
        row = parsed(body.decode())
        for name in ("message", "reasons", "receipt", "record", "evidence"):
            if isinstance(row, dict) and len(body) > size and name in row:
                del row[name]
                body = dumped(row).encode()
    if len(body) <= size:
        return body.ljust(size)
    return ERASED_LINE.ljust(size) if len(ERASED_LINE) <= size else b" " * size
