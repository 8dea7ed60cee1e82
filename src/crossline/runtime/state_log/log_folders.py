"""Where states and backfills are logged below the root of a pipeline's state, and how stores begin with their past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby

from crossline.evaluate.resharding import Blob, whole
from crossline.evaluate.shard import ShardState
from crossline.evaluate.state_log import apply_backfill, expired
from crossline.io.objects.location import under
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.state_log import StateLog

BACKFILLS = "backfills"


def depth_folder(root: str, depth: int) -> str:
    """Where the states of a depth are logged, of those below ``root``."""
    return root if depth == 1 else under(root, f"level-{depth}" if depth else "decided")


def backfill_root(root: str, folder: str) -> str:
    """Where the past of state stores is logged, beside the log of ``root``."""
    return under(root, BACKFILLS, folder)


def by_batch(logs: Sequence[StateLog], after: int, until: int) -> Iterator[Blob]:
    """What each batch added to the shards of ``logs`` together, of batches ``after`` < b <= ``until``, oldest first.

    Raises StateError as ``StateLog.blobs`` does.
    """
    if len(logs) == 1:
        yield from logs[0].blobs(after, until)
        return
    merged = merge(*(log.blobs(after, until) for log in logs), key=lambda blob: int(blob[0]["batch"]))
    for _, blobs in groupby(merged, key=lambda blob: int(blob[0]["batch"])):
        yield whole(list(blobs))


def begin_with_backfill(
    root: str, depth: int, shards: Sequence[int], snapshot: PlanSnapshot, state: ShardState, state_stores: Sequence[str]
) -> list[str]:
    """Load the backfills of those ``state_stores`` that are new to ``state``; returns the folders of these backfills.

    ``state`` is that of ``shards``, or of all of them in one.
    """
    new = [
        state_store
        for state_store in state_stores
        if state_store not in state.stores and state_store in snapshot.backfills
    ]
    folders = []
    for backfill in dict.fromkeys(snapshot.backfills[state_store] for state_store in new):
        folder = depth_folder(backfill_root(root, backfill.folder), depth)
        needed = [log for log in (StateLog(folder, shard) for shard in shards) if _needed(log, snapshot, state)]
        for meta, arrays in by_batch(needed, -1, backfill.slices - 1) if needed else ():
            apply_backfill(snapshot.plans(), state, meta, arrays, snapshot.bounds, new)
        folders.append(folder)
    return folders


def _needed(log: StateLog, snapshot: PlanSnapshot, state: ShardState) -> bool:
    """Whether a backfilled record is in a window of a record still to come, or that is unknown."""
    metas = [meta for segment in log.segments() for meta in log.metas(segment)]
    return not metas or not expired(snapshot.plans(), state, metas, snapshot.bounds)
