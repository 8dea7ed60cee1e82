"""Where states and pasts are logged below the root of a pipeline's state, and how layers begin with their past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby

from crossline.connectors.objects.place import under
from crossline.core.judge.persist import apply_past, expired
from crossline.core.judge.reshard import Blob, whole
from crossline.core.judge.shard import ShardState
from crossline.engine.book.book import Book
from crossline.engine.state.statelog import StateLog

PASTS = "pasts"


def at_level(root: str, level: int) -> str:
    """Where the states of a level are logged, of those below ``root``."""
    return root if level == 1 else under(root, f"level-{level}" if level else "decided")


def past_root(root: str, folder: str) -> str:
    """Where the past of layers is logged, beside the log of ``root``."""
    return under(root, PASTS, folder)


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


def begin_with_past(
    root: str, level: int, shards: Sequence[int], book: Book, state: ShardState, layers: Sequence[str]
) -> list[str]:
    """Fill those of ``layers`` that ``state`` has not met and that have a past; the folders of these pasts.

    ``state`` is that of ``shards``, or of all of them in one.
    """
    new = [layer for layer in layers if layer not in state.stores and layer in book.pasts]
    folders = []
    for past in dict.fromkeys(book.pasts[layer] for layer in new):
        folder = at_level(past_root(root, past.folder), level)
        needed = [log for log in (StateLog(folder, shard) for shard in shards) if _needed(log, book, state)]
        for meta, arrays in by_batch(needed, -1, past.slices - 1) if needed else ():
            apply_past(book.plans(), state, meta, arrays, book.bounds, new)
        folders.append(folder)
    return folders


def _needed(log: StateLog, book: Book, state: ShardState) -> bool:
    """Whether something in a past is in a window of a record still to come, or nobody can say."""
    metas = [meta for segment in log.segments() for meta in log.metas(segment)]
    return not metas or not expired(book.plans(), state, metas, book.bounds)
