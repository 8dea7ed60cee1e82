"""A process's cache of shard states, checked against the log of segments by batch number."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from crossline.basics.errors import StateError
from crossline.evaluate.output import StoreDelta
from crossline.evaluate.shard import ShardState, forget_unplanned
from crossline.evaluate.state_log import Foresight, apply_delta, delta_pieces, expired
from crossline.io.objects.location import under
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.log_folders import begin_with_backfill, depth_folder
from crossline.runtime.state_log.state_log import MERGE_AT, MERGE_COUNT, StateLog, shards_in
from crossline.runtime.work.rows import StageRows

STANDBY_BEHIND = 3  # batches of a standby behind the one that is judged, where it keeps up
MERGE_EVERY = 16  # batches between two looks at what can be merged or dropped
# Shards look in turns: a batch waits for all of its shards, and two that merge at once take each other's processor.
_APART = 5  # batches from one shard to the next; it has no divisor in common with those above


@dataclass(slots=True)
class _Cached:
    state: ShardState
    batch_id: int  # the last batch applied
    snapshot: PlanSnapshot | None = None  # by which that batch was judged here
    answer: StageRows | None = None  # and what came of it
    ahead: bool = False  # read before a batch asked for it, and not judged since
    wanted: int = -1  # of one that was read ahead: the last batch that it was asked to be at
    follows: bool = False  # and whether it is asked again with each batch
    foresight: Foresight | None = None  # while it is read from the beginning


# One per process: (root, query, shard) -> state.
_CACHE: OrderedDict[tuple[str, str, int], _Cached] = OrderedDict()


@dataclass(slots=True)
class HeldShard:
    """A shard's state as of the batch before ``batch_id``, for judging that batch.

    ``read``, ``read_bytes``: batches of its log that were read for it, and their bytes in memory; 0 where it was here.
    """

    state: ShardState
    log: StateLog
    batch_id: int
    answer: StageRows | None = None
    read: int = 0
    read_bytes: int = 0

    def commit(self, deltas: Sequence[StoreDelta], answer: StageRows) -> None:
        """Write the batch's segment; the cache holds the state, and ``answer``, from here on."""
        self.log.write(self.batch_id, delta_pieces(self.batch_id, self.state, deltas))
        self.answer = answer


@dataclass(frozen=True, slots=True)
class ShardCache:
    """Where shard states are logged, and how many of them a process may hold.

    ``root`` is a folder; where ``per_query``, there is one folder per query below it. ``used_within``: batches after
    which an unused state is dropped, where each shard is judged at one place; 0: it stays. ``standby``: whether other
    processes hold the states too, to take over from those that judge.
    """

    root: str
    per_query: bool
    held_max: int
    used_within: int = 0
    standby: bool = False

    def answer(
        self, snapshot: PlanSnapshot, query_id: str, shard: int, batch_id: int, depth: int = 1
    ) -> StageRows | None:
        """What came of ``batch_id`` where this process judged it last, by the same plan snapshot.

        A task whose worker dies is run again: the batch is the same, and so is the answer.
        """
        cached = _CACHE.get((self._root(query_id, depth), query_id, shard))
        if cached is None or cached.batch_id != batch_id or cached.snapshot is not snapshot:
            return None
        return cached.answer

    def _root(self, query_id: str, depth: int) -> str:
        return depth_folder(under(self.root, query_id) if self.per_query else self.root, depth)

    def _begins(self, log: StateLog, batch_id: int, *, ends: bool) -> bool:
        """Whether the log of a depth begins with this batch.

        A query of ``detect`` may have had rules of this depth before, and none for a while; so may any, of those whose
        corrections revise decisions (``ends``).
        """
        lasts = [segment.last for segment in log.segments() if segment.first < batch_id]
        return not lasts or ((self.per_query or ends) and max(lasts) < batch_id - 1)

    @contextmanager
    def shard(
        self, snapshot: PlanSnapshot, query_id: str, shard: int, batch_id: int, depth: int = 1
    ) -> Iterator[HeldShard]:
        """The shard's state as of batch ``batch_id`` - 1: from the cache, caught up or rebuilt from the log.

        A depth other than the first, which has states of its own, may begin with any batch.
        """
        key = (self._root(query_id, depth), query_id, shard)
        cached, read = self._held(snapshot, query_id, shard, batch_id, depth)
        if cached is None:
            cached = self._new(snapshot, query_id, shard, batch_id, depth)
            read = self._catch_up(cached, snapshot, query_id, shard, batch_id, depth)
        held = HeldShard(cached.state, StateLog(key[0], shard), batch_id)
        held.read, held.read_bytes = read
        if (batch_id + _APART * shard) % MERGE_EVERY == 0:
            cached.state.kept_from = _tidy(held.log, snapshot, cached.state, batch_id, depth)
        yield held
        if held.answer is not None:
            cached.batch_id, cached.snapshot, cached.answer, cached.ahead = batch_id, snapshot, held.answer, False
            _CACHE[key] = cached
            mine = [each for each in _CACHE if each[0] == key[0]]  # a past that is being read lets no shard go
            for each in mine[: max(0, len(mine) - self.held_max)]:
                del _CACHE[each]

    def _held(
        self, snapshot: PlanSnapshot, query_id: str, shard: int, batch_id: int, depth: int
    ) -> tuple[_Cached | None, tuple[int, int]]:
        """The state that is here, caught up; None where none can be: what it lacks may have been dropped from the log.

        That happens to a standby that is far behind, and to a depth that had no batch for a while. The log decides then
        as it does for a process that holds nothing, and raises where it is damaged.
        """
        cached = _CACHE.pop((self._root(query_id, depth), query_id, shard), None)
        if cached is None or cached.batch_id >= batch_id:
            return None, (0, 0)
        try:
            return cached, self._catch_up(cached, snapshot, query_id, shard, batch_id, depth)
        except StateError:
            return None, (0, 0)

    def read_ahead(
        self,
        snapshot: PlanSnapshot,
        query_id: str,
        shard: int,
        batch_id: int,
        depth: int = 1,
        *,
        follows: bool = False,
        until_s: float | None = None,
    ) -> bool:
        """Have the shard's state as of batch ``batch_id`` - 1 here before that batch is judged; whether it is.

        One that was read ahead, too, reads on; one by which this process has judged stays, unless it ``follows``. What
        it is read by may be another plan snapshot than that of the batch: it catches up, as between batches.

        ``follows``: it is judged elsewhere, and will be asked to read on with each batch. ``until_s``: of the monotonic
        clock; what is left then takes another call.
        """
        key = (self._root(query_id, depth), query_id, shard)
        cached = _CACHE.get(key)
        if cached is not None and (cached.batch_id >= batch_id - 1 or not (cached.ahead or follows)):
            return True
        _CACHE.pop(key, None)  # one that cannot be read on is of no use
        cached = cached or self._new(snapshot, query_id, shard, batch_id, depth)
        try:
            self._catch_up(cached, snapshot, query_id, shard, batch_id, depth, until_s)
        except StateError:  # who judges may have merged what was listed
            self._catch_up(cached, snapshot, query_id, shard, batch_id, depth, until_s)
        forget_unplanned(snapshot.kept_at(depth), cached.state)  # as judging does, which a standby does not
        cached.ahead, cached.wanted, cached.follows = True, batch_id - 1, follows
        cached.snapshot = cached.answer = None  # of a batch that it is past
        _CACHE[key] = cached
        return cached.batch_id >= batch_id - 1

    def _new(self, snapshot: PlanSnapshot, query_id: str, shard: int, batch_id: int, depth: int) -> _Cached:
        """A state of no batch, for judging ``batch_id`` once it has caught up."""
        cached = _Cached(snapshot.new_state(), -1)
        _check_shards(self._root(query_id, 1), snapshot.shards, batch_id)
        log = StateLog(self._root(query_id, depth), shard)
        if depth != 1 and self._begins(log, batch_id, ends=not depth):
            cached.batch_id, cached.state.kept_from = batch_id - 1, batch_id
        return cached

    def _catch_up(
        self,
        cached: _Cached,
        snapshot: PlanSnapshot,
        query_id: str,
        shard: int,
        batch_id: int,
        depth: int,
        until_s: float | None = None,
    ) -> tuple[int, int]:
        """Bring ``cached`` to batch ``batch_id`` - 1; how many batches were read for it, and their bytes in memory.

        ``until_s``: see ``read_ahead``.
        """
        log = StateLog(self._root(query_id, depth), shard)
        fill = partial(_fill, self._root(query_id, 1), depth, shard, snapshot, cached.state)
        if cached.batch_id < 0:
            cached.foresight = Foresight(sum(each.bytes for each in log.segments() if each.first < batch_id))
        read, read_bytes = 0, 0
        for meta, arrays in log.blobs(cached.batch_id, batch_id - 1):
            read, read_bytes = read + 1, read_bytes + sum(each.nbytes for each in arrays.values())
            fill([item["state_store"] for item in meta["state_stores"]])
            apply_delta(snapshot.kept_at(depth), cached.state, meta, arrays, snapshot.bounds)
            cached.batch_id = int(meta["batch"])
            if cached.foresight is not None:
                cached.foresight.applied(cached.state, arrays)
            if until_s is not None and time.monotonic() >= until_s:
                return read, read_bytes
        cached.batch_id, cached.foresight = max(cached.batch_id, batch_id - 1), None
        fill([lp.state_store.name for plan in snapshot.plans_at(depth) for lp in plan.state_stores])
        return read, read_bytes

    def drop_unused(self, query_id: str, batch_id: int, depth: int = 1) -> None:
        """States of this query and depth that were not used in ``used_within`` batches before ``batch_id``.

        And those that were read ahead for a batch before the last one, and were not used by it here; with standbys,
        which are asked some batches behind when they begin to judge, for one before those.
        """
        ahead = batch_id - (STANDBY_BEHIND if self.standby else 1)
        root, oldest = self._root(query_id, depth), batch_id - self.used_within if self.used_within else 0
        for key in [key for key, each in _CACHE.items() if key[0] == root]:
            each = _CACHE[key]
            if (each.wanted < ahead) if each.ahead else (each.batch_id < oldest):
                del _CACHE[key]


def forget_ahead() -> None:
    """Drop what was read ahead and not asked for, unless it follows: it is judged elsewhere."""
    for key in [key for key, each in _CACHE.items() if each.ahead and not each.follows]:
        del _CACHE[key]


def _check_shards(root: str, shards: int, batch_id: int) -> None:
    """Keys stand in the shard that their hash gave them; in another number of shards they would not be found."""
    kept = shards_in(root) if batch_id > 0 else shards
    if kept not in {0, shards}:
        raise StateError(f"{root}: keys are kept in {kept} shards, found a query of {shards}; go on with shards={kept}")


def _fill(
    root: str, depth: int, shard: int, snapshot: PlanSnapshot, state: ShardState, state_stores: Sequence[str]
) -> None:
    """State stores met for the first time begin with their past, where they have one."""
    for folder in begin_with_backfill(root, depth, (shard,), snapshot, state, state_stores):
        for key in [key for key in _CACHE if key[0] == folder and key[2] == shard]:
            del _CACHE[key]  # what was held to judge the past slice by slice


def _tidy(log: StateLog, snapshot: PlanSnapshot, state: ShardState, batch_id: int, depth: int) -> int:
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
        plans = snapshot.kept_at(depth)
        if segment.last >= batch_id - MERGE_COUNT or not expired(plans, state, log.metas(segment), snapshot.bounds):
            return segment.first
    return state.kept_from
