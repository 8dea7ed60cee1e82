"""States of shards read before a batch asks for them: what a state server does while Spark still starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.state_log.cache import ShardCache


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The states of ``shards`` as of the batch before ``batch_id``, at every depth.

    ``follows``: it is asked for with each batch, and another executor judges them.
    """

    source: SnapshotSource
    cache: ShardCache
    query_id: str
    batch_id: int
    shards: tuple[int, ...]
    follows: bool = False

    def read(self, within_s: float) -> bool:
        """Read them, or as much as that time allows, and whether that is all.

        What is wrong with a log is met again, and reported, by the batch.
        """
        snapshot, until_s = self.source.current(), time.monotonic() + within_s
        depths = [*range(1, snapshot.depth + 1), *([] if snapshot.revises_ms is None else [0])]
        for depth in depths:
            for shard in self.shards:
                where = (snapshot, self.query_id, shard, self.batch_id, depth)
                if not self.cache.read_ahead(*where, follows=self.follows, until_s=until_s):
                    return False
        return True
