"""What maintenance does, in order: table by table, as settings say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from crossline.lake.maintenance.compaction import DAY_MS, Compacted, compact
from crossline.lake.maintenance.expiry import Expired, delete_orphans, drop_before, expire
from crossline.lake.reading import LakeReader, is_records
from crossline.lake.state.state_snapshots import StateSnapshots
from crossline.lake.tables.table_layouts import STATES
from crossline.logs import get_logger
from crossline.settings.process.lake import LakeSettings

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to a table."""

    table: str
    compacted: Compacted
    expired: Expired
    orphans: int


def maintain(reader: LakeReader, settings: LakeSettings, now_ms: int, *, orphans: bool = True) -> Iterator[Maintained]:
    """Maintain each table: rows beyond retention go, small files are merged, snapshots expire, orphans are deleted.

    Args:
        reader: The lake.
        settings: How long rows and snapshots are kept.
        now_ms: Epoch milliseconds.
        orphans: Whether to look for files that nothing refers to, which lists all files.
    """
    for table in reader.tables():
        keep_ms = settings.keep.get("records" if is_records(table.layout.name) else table.layout.name)
        if keep_ms is not None:
            drop_before(table, (now_ms - keep_ms) // DAY_MS * DAY_MS)
        merged = compact(table, now_ms)
        expired = expire(table, now_ms, settings.snapshots_max)
        removed = delete_orphans(table, now_ms) if orphans else 0
        if table.layout is STATES:
            removed += _maintain_states(reader, settings, now_ms, orphans=orphans)
        yield Maintained(table.layout.name, merged, expired, removed)


def _maintain_states(reader: LakeReader, settings: LakeSettings, now_ms: int, *, orphans: bool) -> int:
    """Delete snapshots of the state beyond those that are kept, and orphaned ones; how many of these."""
    snapshots = StateSnapshots(reader.lake)
    snapshots.drop_old(settings.state_keep)
    return snapshots.delete_orphans(now_ms) if orphans else 0


def maintain_all(reader: LakeReader, settings: LakeSettings) -> None:
    """Maintain all tables as of now, without a look for orphaned files: what the writer does every `maintain_every`."""
    for done in maintain(reader, settings, time.time_ns() // 1_000_000, orphans=False):
        if done.compacted.before or done.expired.snapshots:
            log.info(
                "a table of the lake was maintained",
                table=done.table,
                files=done.compacted.before,
                merged=done.compacted.after,
                snapshots=done.expired.snapshots,
            )
