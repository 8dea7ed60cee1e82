"""Logs of chunks: what a source of files, or the generator, has to offer, cut into numbered pieces.

A chunk is a range that one task decodes. Chunk numbers are the order of the log and never change, so a batch that is
run again reads the same bytes. Guarantee: replayable, every record once, in order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

READY = "ready"
STARTED = "started.json"  # in the folder of a source of generated records: how many a chunk has


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Chunk ``sequence`` of a log: bytes (or records) [start, end) of ``path``.

    ``name``: what positions of its records say, the same for one file whatever it is called later. ``head`` and
    ``tail``: digests of the file's first bytes and of those before ``end``, by which it is known again; None where
    nothing was noted. ``listed_ms``: when it was found to be there, None where that bounds no record's ingest time.
    ``packed``: bytes of a compressed file, to which ``tail`` belongs; start and end are then those of its text.
    ``fault``: why it is no archive that can be read; nothing of it can be, then. ``row_bytes``: of a piece of a table,
    what a row counts for: start and end are multiples of it, and ``packed`` is the size of the file.
    """

    sequence: int
    path: str
    start: int
    end: int
    name: str = ""
    head: str | None = None
    tail: str | None = None
    listed_ms: int | None = None
    packed: int | None = None
    fault: str | None = None
    row_bytes: int | None = None

    @property
    def stands_to(self) -> int:
        """Up to which byte of its file ``head`` and ``tail`` know it."""
        return self.end if self.packed is None else self.packed

    @property
    def place(self) -> str:
        """The name that positions of its records have."""
        return self.name or self.path


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """What one batch may have: ``size`` bytes (records, of generated traffic), and so many ``chunks``."""

    size: int
    chunks: int


class ChunkLog(Protocol):
    """What the engine needs of a source that is cut into chunks."""

    def poll(self, now_ms: int) -> int:
        """Look for what is new at ``now_ms``; the number of chunks there are now."""
        ...

    def reach(self, start: int, most: ReadLimit) -> int:
        """Up to which chunk a batch that begins with chunk ``start`` goes; ``start`` where nothing is left."""
        ...

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1."""
        ...

    def left(self) -> list[str]:
        """What is there and is not in a chunk yet, as texts for people."""
        ...


class GeneratorChunks:
    """The generator's traffic: ``records`` records (None: without end), at ``rate_per_s`` or as fast as possible.

    Chunks are of ``chunk_records``, or what they were at the first start, which ``folder`` remembers: a chunk's
    number determines its records, also after a restart on a larger machine. Paced traffic begins when
    the file READY stands beside ``folder``: when the pipeline has been through a first batch, without records. The
    times of its records are what its settings say, so no chunk notes when it was listed.
    """

    def __init__(
        self, name: str, folder: str, records: int | None, chunk_records: int, rate_per_s: float | None
    ) -> None:
        self._name = name
        self._records = records
        self._rate = rate_per_s
        self._chunk = chunk_records
        self._due = 0
        self._started_ms: int | None = None
        self._start = Path(folder) / STARTED
        self._ready = Path(folder).parent / READY
        if self._start.exists():
            first = json.loads(self._start.read_text())
            self._started_ms = int(first["started_ms"])
            self._chunk = int(first["chunk_records"])

    def _begin(self, now_ms: int) -> int:
        self._start.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._start.with_suffix(".tmp")
        temporary.write_text(json.dumps({"started_ms": now_ms, "chunk_records": self._chunk}))
        temporary.replace(self._start)
        self._started_ms = now_ms
        return now_ms

    def poll(self, now_ms: int) -> int:
        """How many chunks are due by ``now_ms``."""
        if self._started_ms is None and self._rate is not None and not self._ready.exists():
            return 0
        started_ms = self._begin(now_ms) if self._started_ms is None else self._started_ms
        last = -(-self._records // self._chunk) if self._records is not None else 1 << 40
        if self._rate is None:
            self._due = last
        else:
            self._due = min(last, int((now_ms - started_ms) / 1000 * self._rate) // self._chunk)
        return self._due

    def reach(self, start: int, most: ReadLimit) -> int:
        """As many chunks as hold ``most.size`` records, at least one."""
        return max(start, min(self._due, start + min(most.chunks, max(1, most.size // self._chunk))))

    def chunks(self, start: int, end: int) -> list[ChunkRef]:
        """Chunks number ``start`` to ``end`` - 1."""
        limit = self._records if self._records is not None else 1 << 60
        return [ChunkRef(n, self._name, n * self._chunk, min((n + 1) * self._chunk, limit)) for n in range(start, end)]

    def left(self) -> list[str]:
        """Nothing: every record is in a chunk."""
        return []
