"""A pipeline whose checkpoint lies on a store, batch by batch, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle.replicated import Decision, Pipeline

from crossline.io.feed.copies import FeedCopies
from crossline.io.feed.files import batch_path, write_batch
from crossline.io.objects.file_stores import FileStore
from crossline.runtime.snapshot.checkpoint_mirror import CheckpointMirror
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.cache import ShardCache

PLANNED_MS = 1_000_000_000_000


class StoredPipeline:
    """Works in ``folder``; ``state`` is the URI or path below which shards write, of the checkpoint in ``store``.

    A batch is noted on the store as a driver notes it: planned, judged, given to the feed, noted again. What Spark
    commits is noted with the next one.
    """

    def __init__(
        self, folder: Path, store: FileStore, state: str, snapshot: PlanSnapshot, epoch: int = 1, name: str = "q1"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.store = folder, store
        self.mirror = CheckpointMirror(store, folder, "the store")
        self.mirror.restore(epoch)
        self.pipeline = Pipeline(folder, snapshot)
        self.pipeline.cache = ShardCache(state, per_query=False, held_max=64)
        self.copies = FeedCopies(store, self.mirror.discard, 0)
        (folder / "feed").mkdir(exist_ok=True)
        (folder / "spark").mkdir(exist_ok=True)
        (folder / "spark" / "metadata").write_text(f'{{"id":"{name}"}}')
        self.mirror.publish()

    def batch(self, lines: Sequence[bytes], *, done: bool = True) -> list[Decision]:
        """Judge lines; ``done``: all that follows from that is noted too."""
        decided = self.pipeline.batch([("payments", lines)], commit=False)
        self.mirror.publish()
        if done:
            self.finish()
        return decided

    def finish(self) -> None:
        """The last batch is delivered."""
        number = self.pipeline.batches
        head: dict[str, Any] = {"batch": number, "planned_ms": PLANNED_MS, "delivered_ms": PLANNED_MS + 5}
        write_batch(self.folder / "feed", {**head, "begins": {}, "ends": {}, "counts": {}}, {})
        self.copies.add(number, batch_path(self.folder / "feed", number).read_bytes())
        self.mirror.publish()
        self.pipeline.commit()
        self.mirror.tidy()
