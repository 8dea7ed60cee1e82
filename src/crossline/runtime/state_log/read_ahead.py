"""States of shards read before a batch asks for them: what a state server does while Spark still starts."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.state_log.cache import ShardCache


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The states of ``shards`` as of the batch before ``batch_id``, at every depth."""

    source: SnapshotSource
    cache: ShardCache
    query_id: str
    batch_id: int
    shards: tuple[int, ...]

    def read(self) -> None:
        """Read them; what is wrong with a log is met again, and reported, by the batch."""
        snapshot = self.source.current()
        depths = [*range(1, snapshot.depth + 1), *([] if snapshot.revises_ms is None else [0])]
        for depth in depths:
            for shard in self.shards:
                self.cache.read_ahead(snapshot, self.query_id, shard, self.batch_id, depth)
