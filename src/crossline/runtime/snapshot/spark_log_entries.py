"""Entries of Spark's logs of offsets and commits, written by the driver in Spark's own form.

An entry is that of the batch before with other offsets and another time: what else Spark notes stays as it is for as
long as a query runs. A file appears as a whole, under a name that no file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError

FORMAT = "v1"
Offsets = dict[str, dict[str, int]]  # of a source of topics: topic -> partition -> next offset


@dataclass(slots=True)
class SparkLogEntries:
    """What Spark logged of its newest batch, ``last``, which is planned and not committed."""

    folder: Path
    last: int
    metadata: dict[str, Any]
    offsets: list[Offsets]
    committed: bytes

    @classmethod
    def of(cls, checkpoint: str, last: int) -> SparkLogEntries | None:
        """Those that follow batch ``last``; None where its entries are of another form, or one of a source is none."""
        folder = Path(checkpoint) / "spark"
        try:
            version, metadata, *offsets = (folder / "offsets" / str(last)).read_text().splitlines()
            committed = (folder / "commits" / str(last - 1)).read_bytes()
        except (OSError, ValueError):
            return None
        if version != FORMAT or "-" in offsets or not committed.startswith(FORMAT.encode()):
            return None
        return cls(folder, last, orjson.loads(metadata), [orjson.loads(line) for line in offsets], committed)

    def next(self, ends: Sequence[Mapping[tuple[str, int], int]], now_ms: int) -> None:
        """Commit the newest batch, and plan the one after it, which ends at ``ends`` in each source.

        Raises PermanentError where another process has done it.
        """
        self._write("commits", self.last, self.committed)
        offsets = [
            {
                topic: {number: mine.get((topic, int(number)), offset) for number, offset in partitions.items()}
                for topic, partitions in before.items()
            }
            for before, mine in zip(self.offsets, ends, strict=True)
        ]
        metadata = {**self.metadata, "batchTimestampMs": now_ms}
        lines = [FORMAT.encode(), orjson.dumps(metadata), *map(orjson.dumps, offsets)]
        self._write("offsets", self.last + 1, b"\n".join(lines))
        self.last, self.metadata, self.offsets = self.last + 1, metadata, offsets

    def _write(self, log: str, batch: int, entry: bytes) -> None:
        path = self.folder / log / str(batch)
        if path.exists():
            raise PermanentError(f"{path} is there already: another process runs this pipeline; end one of them")
        temporary = path.with_name(f".{batch}.tmp")
        temporary.write_bytes(entry)
        temporary.rename(path)
