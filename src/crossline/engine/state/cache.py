"""The worker's cache of shard states, checked against the log of segments by batch number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from crossline.core.errors import StateError
from crossline.core.persist import apply_delta, apply_past, encode_delta, expired
from crossline.core.shard import LayerDelta, ShardState
from crossline.engine.book import Book
from crossline.engine.state.statelog import MERGE_AT, MERGE_COUNT, StateLog, shards_in

MERGE_EVERY = 16  # batches between two looks at what can be merged or dropped


@dataclass(slots=True)
class _Cached:
    state: ShardState
    batch_id: int  # the last batch applied


# One per worker process: (root, query, shard) -> state.
_CACHE: OrderedDict[tuple[str, str, int], _Cached] = OrderedDict()


@dataclass(slots=True)
class Held:
    """A shard's state as of the batch before ``batch_id``, for judging that batch."""

    state: ShardState
    log: StateLog
    batch_id: int
    committed: bool = False

    def commit(self, deltas: Sequence[LayerDelta]) -> None:
        """Write the batch's segment; the cache holds the state from here on."""
        self.log.write(self.batch_id, encode_delta(self.batch_id, self.state, deltas))
        self.committed = True


@dataclass(frozen=True, slots=True)
class ShardCache:
    """Where shard states are logged, and how many of them a worker may hold.

    ``root`` is a folder; where ``per_query``, there is one folder per query below it.
    """

    root: str
    per_query: bool
    held_max: int

    @contextmanager
    def shard(self, book: Book, query_id: str, shard: int, batch_id: int) -> Iterator[Held]:
        """The shard's state as of batch ``batch_id`` - 1: from the cache, caught up or rebuilt from the log."""
        root = f"{self.root}/{query_id}" if self.per_query else self.root
        key = (root, query_id, shard)
        log = StateLog(root, shard)
        cached = _CACHE.pop(key, None)
        if cached is None or cached.batch_id >= batch_id:
            cached = _Cached(book.new_state(), -1)
            _check_shards(root, book.shards, batch_id)
        for meta, arrays in log.blobs(cached.batch_id, batch_id - 1):
            _fill(log, book, cached.state, [item["layer"] for item in meta["layers"]])
            apply_delta(book.plans(), cached.state, meta, arrays, book.bounds)
        _fill(log, book, cached.state, [lp.layer.name for plan in book.plans() for lp in plan.layers])
        if batch_id % MERGE_EVERY == 0:
            cached.state.kept_from = _tidy(log, book, cached.state, batch_id)
        held = Held(cached.state, log, batch_id)
        yield held
        if held.committed:
            cached.batch_id = batch_id
            _CACHE[key] = cached
            while len(_CACHE) > self.held_max:
                _CACHE.popitem(last=False)


def _check_shards(root: str, shards: int, batch_id: int) -> None:
    """Keys stand in the shard that their hash gave them; in another number of shards they would not be found."""
    kept = shards_in(root) if batch_id > 0 else shards
    if kept not in {0, shards}:
        raise StateError(f"{root}: keys are kept in {kept} shards, found a query of {shards}; go on with shards={kept}")


def _fill(log: StateLog, book: Book, state: ShardState, layers: Sequence[str]) -> None:
    """Layers met for the first time begin with their past, where they have one."""
    for layer in layers:
        if layer not in state.stores:
            past = log.fill(layer)
            if past is not None:
                apply_past(book.plans(), state, *past, book.bounds)


def _tidy(log: StateLog, book: Book, state: ShardState, batch_id: int) -> int:
    """Merge old segments, drop those that an earlier batch wrote off; the first batch to be kept from now on.

    What is written off now goes at a later batch: if this one dies, the log it is run again on must still be whole.
    """
    segments = log.segments()
    log.drop([s for s in segments if s.last < state.kept_from])
    segments = [s for s in segments if s.last >= state.kept_from]
    if len(segments) >= MERGE_AT:
        log.merge(batch_id - MERGE_COUNT)
        segments = [s for s in log.segments() if s.last >= state.kept_from]
    for segment in segments:
        if segment.last >= batch_id - MERGE_COUNT or not expired(book.plans(), state, log.metas(segment), book.bounds):
            return segment.first
    return state.kept_from
