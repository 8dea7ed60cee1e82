"""The records of one state store of one shard: what every kernel keeps them in, whatever it sees in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.errors import StateError
from crossline.basics.values import U8
from crossline.state.batch import Delta, DueHits, Hits, KeyedBatch, take
from crossline.state.memory import layout as at
from crossline.state.memory.hashing import xxh64_many
from crossline.state.windows.entry_points import COUNT_DEAD, DROP, THROW_OUT
from crossline.state.windows.hit_buffers import Buffers
from crossline.state.windows.memory_map import MemoryMap

ANY_AGE = 2**62
POOL_MAX = 2**32 - 1
NUMBERS = 2**31 - 1  # of records
NOTHING_MS = -(2**62)  # before all clocks
# From how many records on they are dropped singly; of how many more than came, and how many at least, a call does so.
SINGLY_FROM, DROPPED_EACH, DROPPED_LEAST = 1 << 15, 2, 1024
LOOKED_AT = 64
RECORDS_A_SLOT = 8  # moving so many records together is worth a slot


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a state holds: records (those not thrown out yet included), keys, bytes (room to grow included)."""

    records: int
    keys: int
    bytes: int


class RecordStore:
    """Records by key and id, in ``memory``: taking them in, knowing them again, throwing them out.

    ``duplicate_ms``: a record is a duplicate of one of the same key and id whose clock is not before its own ingest
    time minus this. It must not reach behind what ``evict`` drops; None counts every record that is still held, which
    then depends on when ``evict`` was called.
    """

    def __init__(self, memory: MemoryMap, duplicate_ms: int | None) -> None:
        self.duplicate_ms = ANY_AGE if duplicate_ms is None else duplicate_ms
        self._memory = memory
        self._came = 0  # rows since the last eviction
        self._buffers = Buffers(memory)

    def delta(self, batch: KeyedBatch, hits: Hits) -> Delta:
        """What ``judge(batch)``, which gave ``hits``, added: for ``load`` in another process."""
        kept = batch if len(hits.retained) == len(batch) else take(batch, hits.retained)
        return Delta(kept, hits.sat, hits.emitted_line, hits.emitted_row)

    def expect(self, records: int) -> None:
        """So many records are about to be loaded: the table of their ids is filled once, and not at each load anew."""
        self._memory.make_table(at.ID_TABLE, records)

    def due(self, clock_ms: int) -> DueHits | None:  # noqa: ARG002 - kernels with waiting records override it
        """Nothing."""
        return None

    def evict(self, cutoff_ms: int) -> None:
        """Drop records with a clock at or before ``cutoff_ms``, of no use to later ones.

        Of a large state the oldest are dropped, some at each call. A small one is compacted once they are half of all,
        and a large one where that leaves half of it: later records before them, or keys without records.
        """
        came, self._came = self._came, 0
        if not self.records:
            return
        if self.records < SINGLY_FROM:
            if 2 * self._memory.run(COUNT_DEAD, cutoff_ms) >= self.records:
                self._compact(cutoff_ms)
            return
        memory, words = self._memory, self._memory.words
        limit = DROPPED_EACH * came + DROPPED_LEAST
        dropped = memory.run(DROP, cutoff_ms, limit)
        memory.drop(int(words[at.FIRST_RECORD]))
        vacant = int(words[at.N_VACANT])
        spare = 2 * vacant >= int(words[at.N_SLOTS]) and RECORDS_A_SLOT * vacant >= self.records
        if spare or (dropped < limit and self._most_are_dead(cutoff_ms)):
            self._compact(cutoff_ms)

    def _most_are_dead(self, cutoff_ms: int) -> bool:
        """Whether of some records, all over the state, most are dead or dropped."""
        first, end = int(self._memory.words[at.FIRST_RECORD]), int(self._memory.words[at.N_RECORDS])
        some = np.linspace(first, end - 1, LOOKED_AT).astype(np.int64)
        dead = self._memory.clocks(some) <= cutoff_ms
        return bool(2 * np.count_nonzero(dead) > LOOKED_AT)

    def _compact(self, cutoff_ms: int = NOTHING_MS) -> None:
        """Move the records with a clock after ``cutoff_ms`` together."""
        memory, first = self._memory, int(self._memory.words[at.FIRST_RECORD])
        memory.keep(at.NUMBER, np.empty(self.records, np.int32))
        memory.words[at.NUMBER] -= 4 * first  # as if it began with the first number there ever was
        memory.keep(at.SLOT_NUMBER, np.empty(int(memory.words[at.N_SLOTS]), np.int32))
        memory.run(THROW_OUT, cutoff_ms)
        self._renumber(first)
        self._leave()
        memory.close_up()
        for pool in (at.RECORDS, at.SLOTS, at.MATCH_STEPS, at.IDS, at.KEYS):
            memory.shrink(pool)
        memory.refill(at.ID_TABLE, 2 * self.records)
        memory.refill(at.KEY_TABLE, 2 * self.keys)
        memory.refill(at.VALUE_TABLE, 2 * self.records * int(memory.words[at.LINKS]))

    def _close_up(self) -> None:
        """Compact the state if records were dropped: those that there are begin with number 0."""
        if self._memory.words[at.FIRST_RECORD]:
            self._compact()

    def _renumber(self, first: int) -> None:
        """Called between: what a kernel keeps elsewhere than in rows of records and slots takes the new numbers.

        The array NUMBER begins with that of record ``first``, the first that was held.
        """

    def _enter(self, batch: KeyedBatch, values: Any, sat: U8, *, stepwise: bool) -> dict[str, Any]:
        """Make room for the batch and show it to the kernel; the arrays that the kernel writes about its rows.

        ``values``: the rows of columns, 64 bits each.
        """
        n, keys, memory = len(batch), len(batch.key_hash), self._memory
        words = memory.words
        self._came += n
        if words[at.FIRST_RECORD] and self._runs_out(n, int(batch.id_offsets[-1])):
            self._compact()
        for pool, offsets in ((at.IDS, batch.id_offsets), (at.KEYS, batch.key_offsets)):
            more = int(offsets[-1])
            if int(words[at.N_ID_BYTES if pool == at.IDS else at.N_KEY_BYTES]) + more > POOL_MAX:
                raise StateError(
                    "a key space holds at most 4 GiB of record ids, and of keys, per shard; use more shards"
                )
            memory.make_room(pool, more)
        if n:
            memory.make_clocks_fit(int(batch.clock_ms.min()), int(batch.clock_ms.max()))
        memory.make_room(at.RECORDS, n)
        memory.make_room(at.SLOTS, min(keys, n))
        for table, held, more in (
            (at.ID_TABLE, self.records, n),
            (at.KEY_TABLE, int(words[at.N_SLOTS]), min(keys, n)),
            (at.VALUE_TABLE, int(words[at.N_VALUES]), n * int(words[at.LINKS])),
        ):
            memory.make_table(table, held + more, more if stepwise else 0)
        words[at.EACH_BATCH] = 0
        words[at.ROWS], words[at.BATCH_KEYS], words[at.DUPLICATE_MS] = n, keys, self.duplicate_ms
        found = {"duplicate": np.zeros(n, np.uint8), "retained": np.empty(n, np.int32), "sat": sat}
        shown: tuple[tuple[int, Any], ...] = (
            (at.CLOCK_MS, batch.clock_ms),
            (at.INGEST_MS, batch.ingest_ms),
            (at.LATENESS_MS, batch.lateness_ms),
            (at.KEY_INDEX, batch.key_index),
            (at.KEY_BYTES, batch.key_bytes),
            (at.KEY_OFFSETS, batch.key_offsets),
            (at.KEY_HASH, batch.key_hash),
            (at.ID_BYTES, batch.id_bytes),
            (at.ID_OFFSETS, batch.id_offsets),
            (at.ID_HASH, xxh64_many(batch.id_bytes, batch.id_offsets)),
            (at.VALUES, values),
            (at.ROW_FILTERS, batch.filters),
            (at.KEY_SLOT, np.full(keys, -1, np.int32)),
            (at.DUPLICATE, found["duplicate"]),
            (at.RETAINED, found["retained"]),
            (at.ROW_SAT, sat),
        )
        for name, array in shown:
            memory.keep(name, array)
        return found

    def _runs_out(self, rows: int, id_bytes: int) -> bool:
        """Whether as many records, with as many bytes of ids, need the numbers or the addresses of dropped ones.

        Where the system has reserved few addresses and few records were dropped, the rows are moved instead.
        """
        words, fits = self._memory.words, self._memory.fits
        if int(words[at.N_RECORDS]) + rows >= NUMBERS or int(words[at.N_ID_BYTES]) + id_bytes > POOL_MAX:
            return True
        roomy = fits(at.RECORDS, rows) and fits(at.IDS, id_bytes)
        return not roomy and bool(words[at.FIRST_RECORD] >= self.records)

    def _leave(self) -> None:
        self._memory.let_go(at.OF_BATCH)

    @property
    def records(self) -> int:
        """Records held."""
        return int(self._memory.words[at.N_RECORDS] - self._memory.words[at.FIRST_RECORD])

    @property
    def keys(self) -> int:
        """Keys held that have records."""
        return int(self._memory.words[at.N_SLOTS] - self._memory.words[at.N_VACANT])

    @property
    def _next(self) -> int:
        """The number that the next record gets; taking a batch in may change it before (see ``_enter``)."""
        return int(self._memory.words[at.N_RECORDS])

    def sizes(self) -> Sizes:
        """What is held."""
        return Sizes(self.records, self.keys, self.bytes_in_memory())

    def bytes_in_memory(self) -> int:
        """Bytes of the state, room to grow included."""
        return self._memory.bytes_held()

    def key_bytes(self) -> int:
        """Bytes of those that belong to keys, not to records."""
        return self._memory.bytes_held(frozenset({at.SLOTS, at.MATCH_STEPS, at.KEYS, at.KEY_TABLE}))
