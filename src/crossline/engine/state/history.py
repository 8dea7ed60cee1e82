"""Which offsets stood at which ingest time: so that a rule that comes later can be given its past from the source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.engine.progress import offsets_of

EVERY_MS = 1_000  # of ingest time between two marks
KEEP_BYTES = 64 << 20  # of marks; with more, the older half goes


@dataclass(frozen=True, slots=True)
class Mark:
    """After batch ``batch``: the offsets of each source, in their order, and the highest ingest time per stream."""

    batch: int
    offsets: list[dict[str, Any] | None]
    ingest_ms: dict[str, int]


class HistoryLog:
    """Marks in ``folder`` (the pipeline's checkpoint), one a second of ingest time; the newest batch always has one."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._path = self._folder / "history.jsonl"
        self._last = self._folder / "history.last.json"
        self._written: dict[str, int] = {}

    def add(self, batch: int, ingest_ms: dict[str, int]) -> None:
        """Note that ``batch`` is done; its offsets are read from Spark's own log."""
        mark = Mark(batch, offsets_of(str(self._folder), batch), ingest_ms)
        raw = orjson.dumps(mark)
        aside = self._last.with_suffix(".tmp")
        aside.write_bytes(raw)
        aside.replace(self._last)
        if any(ms - self._written.get(stream, -(2**62)) >= EVERY_MS for stream, ms in ingest_ms.items()):
            with self._path.open("ab") as file:
                file.write(b"\n" + raw)  # the end of line first: a mark cut off by a kill spoils no other
                grown = file.tell() > KEEP_BYTES
            if grown:
                self._trim()
            self._written = dict(ingest_ms)

    def last(self) -> Mark | None:
        """The mark of the newest finished batch."""
        return Mark(**orjson.loads(self._last.read_bytes())) if self._last.exists() else None

    def before(self, stream: str, ingest_ms: int) -> Mark | None:
        """The newest mark at which ``stream`` was still before ``ingest_ms``; None: from the beginning."""
        found = None
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                mark = _mark_of(line)
                if mark is None:
                    continue
                if mark.ingest_ms.get(stream, -(2**62)) >= ingest_ms:
                    break
                found = mark
        return found

    def _trim(self) -> None:
        """Drop the older half of the marks."""
        lines = self._path.read_bytes().splitlines(keepends=True)
        aside = self._path.with_suffix(".tmp")
        aside.write_bytes(b"".join(lines[len(lines) // 2 :]))
        aside.replace(self._path)


def _mark_of(line: bytes) -> Mark | None:
    """None where a kill cut the line off."""
    try:
        return Mark(**orjson.loads(line))
    except orjson.JSONDecodeError:
        return None
