"""Routing: the records of one chunk as columns, cut into one part per shard and state store.

Runs where records are decoded. What leaves here is only what shards need: distinct keys, row numbers into them,
times, ids, the values rules aggregate, and one bit per entry. Conditions are evaluated here, as column masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.lists import Lists
from crossline.basics.conditions.mask_program import Turns
from crossline.basics.values import I64, U8, Records
from crossline.basics.wire import Arrays
from crossline.ingest.route.clocks import clock_times
from crossline.ingest.route.facts import facts_of, valid_name
from crossline.ingest.route.key_rows import Rows, rows_of
from crossline.ingest.route.shares import arrays_by_shard, pieces, shared_out
from crossline.ingest.route.texts import encoded
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.costs import UNMEASURED, Meter
from crossline.plan.state_stores import RETIRED, FilterSpec, StateStore
from crossline.programs.kinds import ColumnKind

BoolMask = npt.NDArray[np.bool_]
Column = Any  # n numbers, or n texts by their distinct values


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk among several whose records are routed together: those before number ``end``, behind the piece before."""

    log: str
    sequence: int
    partition: str
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where routed records come from.

    ``log`` is what orders them: within a log by ``sequence`` then row, across logs by ingest time then name.
    ``partition`` names the place for people (a file, a topic-partition). ``last``: nothing of its stream comes
    after it. ``pieces``: the chunks that it is, one after the other, where it is several; their ingest times are known.
    """

    log: str
    sequence: int
    partition: str
    last: bool = False
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One state store's share of a chunk for one shard: meta and arrays, as ``wire`` carries them."""

    shard: int
    meta: dict[str, Any]
    arrays: Arrays


def route(
    plan: StreamPlan,
    records: Records,
    chunk: Chunk,
    shards: int,
    lists: Lists,
    *,
    base: str | None = None,
    meter: Meter = UNMEASURED,
) -> list[Part]:
    """Parts for all shards and state stores.

    Every shard gets the accounting store's part, be it empty, since it carries the chunk's clock. ``base``: the stream
    that the records are of in the end; None: the plan's. ``meter`` is moved on by what it takes.
    """
    meter.start()
    running = records.ingest_ms is None
    runs_along = records.event_ms if records.running_ms is None else records.running_ms
    clock: I64 = np.maximum.accumulate(runs_along) if records.ingest_ms is None else records.ingest_ms
    holds = _holds(plan, records, clock, lists, base or plan.base, running=running)
    meter.condition(plan.stream)
    reached = records.reached_ms
    if reached is None:
        reached = clock if running else _highest(clock, chunk.pieces)
    times = {"clock_ms": clock} if np.array_equal(reached, clock) else {"clock_ms": clock, "reached_ms": reached}
    times |= records.marks
    if records.spans is not None:
        times |= {"from_ms": records.spans[0], "until_ms": records.spans[1]}
    meta = {
        "stream": plan.stream,
        "log": chunk.log,
        "sequence": chunk.sequence,
        "partition": chunk.partition,
        "running": running,
        "clock_ms": int(clock.max()) if len(records) else None,
        "records": len(records),
        "last": chunk.last,
    }
    if chunk.pieces:
        meta["pieces"] = _pieces(chunk.pieces, clock)
    parts: list[Part] = []
    clocks = {on_array(n): clock_times(records, plan.spec, name) for n, name in enumerate(plan.clocks)}
    for number, store_plan in enumerate(plan.state_stores):
        accounting_store = number == plan.accounting_store
        given = {**times, **clocks} if accounting_store else times
        parts.extend(
            _store_parts(plan, store_plan, records, given, holds, meta, shards, accounting_store=accounting_store)
        )
        meter.state_store(store_plan.state_store.name)
    return parts


def _highest(clock: I64, pieces: Sequence[Piece]) -> I64:
    """The highest ingest time of its log up to each row."""
    if not pieces:
        return np.maximum.accumulate(clock)
    starts = (0, *(piece.end for piece in pieces[:-1]))
    found = [np.maximum.accumulate(clock[start : piece.end]) for start, piece in zip(starts, pieces, strict=True)]
    return np.concatenate(found)


def _pieces(pieces: Sequence[Piece], clock: I64) -> list[dict[str, Any]]:
    """What the meta of each is, and where it ends among the rows of all."""
    found, start = [], 0
    for piece in pieces:
        known = {"log": piece.log, "sequence": piece.sequence, "partition": piece.partition, "end": piece.end}
        clock_ms = int(clock[start : piece.end].max()) if piece.end > start else None
        found.append({**known, "clock_ms": clock_ms, "records": piece.end - start})
        start = piece.end
    return found


def on_array(number: int) -> str:
    """The array of the accounting store's part that has the times of clock ``number`` of the plan."""
    return f"on{number}_ms"


@dataclass(frozen=True, slots=True)
class _Holds:
    """Where each condition holds, by its canonical JSON.

    ``turns``: where that is another at a later ingest time, for a log whose ingest times only the shard knows: the
    clock of a chunk is the least that they can be.
    """

    masks: dict[str, BoolMask]
    turns: dict[str, Turns]


def _holds(plan: StreamPlan, records: Records, clock: I64, lists: Lists, base: str, *, running: bool) -> _Holds:
    given = (records.fields, len(records), lists, base, clock)
    turns = {name: each.turns(*given) for name, each in plan.conditions.items() if running and each.lists()}
    return _Holds(plan.conditions.masks(*given), {name: each for name, each in turns.items() if len(each.rows)})


def _store_parts(
    plan: StreamPlan,
    store_plan: StorePlan,
    records: Records,
    times: Mapping[str, I64],
    holds: _Holds,
    meta: dict[str, Any],
    shards: int,
    *,
    accounting_store: bool,
) -> list[Part]:
    state_store = store_plan.state_store
    bits = _entry_bits(state_store, records, holds.masks)
    entering = rows_of(plan.spec, state_store, records, bits)
    keys = entering.keys
    turns = _entry_turns(state_store, records, holds.turns, entering)
    wanted = keys.rows >= 0
    if not accounting_store or plan.met is not None:
        enters = _any_bit(entering.bits)
        enters[turns.rows] = True
        wanted &= enters
    facts = facts_of(store_plan.facts, records)
    columns = [
        *(_column(records.fields[name], kind) for name, kind in state_store.columns),
        *(each for each, _ in facts),
    ]
    given = {valid_name(number): valid for number, (_, valid) in enumerate(facts, len(state_store.columns))}
    stateless = _stateless_bits(plan, holds.masks, len(records)) if accounting_store else None
    later = _bit_turns((rule.condition for rule in plan.stateless), holds.turns)
    shares = shared_out(entering, wanted, shards)
    valid = {name: shares.taken(each) for name, each in given.items()}
    missed = shares.taken(records.missed) if accounting_store and plan.tables and records.missed is not None else None
    hold = None if stateless is None else shares.taken(stateless)
    parts = []
    by_shard = arrays_by_shard(shares, entering, records, times, columns)
    for shard, place in enumerate(pieces(shares.ends)):
        arrays, mine, of = by_shard[shard], shares.rows[place], shares.of[place]
        if not len(mine) and not accounting_store:
            continue
        arrays |= {name: each[place] for name, each in valid.items()}
        arrays |= turns.within("bits", mine)
        if missed is not None:
            arrays["missed"] = missed[place]
        if hold is not None:
            arrays["stateless"] = hold[place]
            arrays |= later.within("stateless", of)
            if plan.stateless:
                shown = hold[place].any(axis=1) | np.isin(of, later.rows)
                arrays["figure_bytes"], arrays["figure_offsets"] = _figures(plan, records, shown, of)
        mine_meta = {**meta, "state_store": state_store.name}
        if "pieces" in meta:
            mine_meta["pieces"] = _pieces_of(meta["pieces"], of, every=accounting_store)
        parts.append(Part(shard, mine_meta, arrays))
    return parts


def _any_bit(bits: U8) -> BoolMask:
    """Where a row has any bit: of the mostly few bytes of a row, one after the other."""
    found: BoolMask = np.zeros(len(bits), np.bool_)
    for number in range(bits.shape[1]):
        found |= bits[:, number] != 0
    return found


def _pieces_of(pieces: Sequence[dict[str, Any]], of: I64, *, every: bool) -> list[dict[str, Any]]:
    """The pieces of a part that has the records ``of``, with their ends among its rows; ``every``: empty ones too."""
    found, start = [], 0
    for piece, end in zip(pieces, np.searchsorted(of, [piece["end"] for piece in pieces]).tolist(), strict=True):
        if every or end > start:
            found.append({**piece, "end": end})
        start = end
    return found


def _entry_bits(state_store: StateStore, records: Records, masks: dict[str, BoolMask]) -> U8:
    """One bit per entry, lateness left open: uint8[n, bytes], bit e of a row at byte e // 8."""
    bits = np.zeros((len(records), -(-len(state_store.filters) // 8)), np.uint8)
    for number, entry in enumerate(state_store.filters):
        holds = filter_mask(entry, masks)
        if entry.column is not None and records.fields[entry.column].null_count:
            holds = holds & records.fields[entry.column].is_valid().to_numpy(zero_copy_only=False)
        bits[:, number // 8] |= np.asarray(holds).view(np.uint8) << np.uint8(number % 8)
    return bits


@dataclass(frozen=True, slots=True)
class _BitTurns:
    """Bits that turn: bit ``bits[i]`` of row ``rows[i]`` at ``instants_ms[i]``."""

    rows: I64
    bits: I64
    instants_ms: I64

    def within(self, name: str, mine: I64) -> Arrays:
        """Those of the rows ``mine`` (ascending), renumbered from 0; no arrays where there are none."""
        if not len(self.rows) or not len(mine):
            return {}
        place = np.minimum(np.searchsorted(mine, self.rows), len(mine) - 1)
        there = mine[place] == self.rows
        if not there.any():
            return {}
        found = {"row": place[there], "bit": self.bits[there], "ms": self.instants_ms[there]}
        return {f"{name}_turn_{what}": array for what, array in found.items()}


def _entry_turns(state_store: StateStore, records: Records, turns: Mapping[str, Turns], entering: Rows) -> _BitTurns:
    """As ``_entry_bits``, of the rows ``entering``: of a record without the column, no bit turns."""
    found = _bit_turns((entry.condition for entry in state_store.filters), turns)
    needs = {n: entry.column for n, entry in enumerate(state_store.filters) if entry.column is not None}
    for number, column in needs.items() if len(found.rows) else ():
        missing = ~records.fields[column].is_valid().to_numpy(zero_copy_only=False)
        kept = ~((found.bits == number) & missing[found.rows])
        found = _BitTurns(found.rows[kept], found.bits[kept], found.instants_ms[kept])
    return replace(found, rows=entering.holding(found.rows, found.bits))


def _bit_turns(conditions: Iterable[str], turns: Mapping[str, Turns]) -> _BitTurns:
    """``conditions``: that of each bit."""
    none: I64 = np.empty(0, dtype=np.int64)
    if not turns:
        return _BitTurns(none, none, none)
    mine = [(number, turns[name]) for number, name in enumerate(conditions) if name in turns]
    rows = [each.rows for _, each in mine]
    bits = [np.full(len(each.rows), number, dtype=np.int64) for number, each in mine]
    return _BitTurns(*(np.concatenate(each or [none]) for each in (rows, bits, [each.instants_ms for _, each in mine])))


def filter_mask(entry: FilterSpec, masks: dict[str, BoolMask]) -> BoolMask | bool:
    """Where the entry's condition holds; nowhere for a retired one."""
    if not entry.condition:
        return True
    return False if entry == RETIRED else masks[entry.condition]


def _stateless_bits(plan: StreamPlan, masks: dict[str, BoolMask], count: int) -> U8:
    """One bit per rule, as of ``_entry_bits``; written byte by byte of all records, which lie side by side."""
    bits = np.zeros((-(-len(plan.stateless) // 8), count), np.uint8)
    for number, rule in enumerate(plan.stateless):
        holds: Any = masks[rule.condition].view(np.uint8) if rule.condition else np.uint8(1)
        bits[number // 8] |= holds << np.uint8(number % 8)
    return np.ascontiguousarray(bits.T)


def _column(array: pa.Array, kind: ColumnKind) -> Column:
    """The values a store keeps: int64, float64, int64 identity codes, or texts; nulls become 0 and are no entries."""
    if kind == "int":
        return _numpy(array.cast(pa.int64()), 0)
    if kind == "float":
        return _numpy(array.cast(pa.float64()), 0.0)
    if pa.types.is_string(array.type):
        return encoded(pc.fill_null(array, ""))
    if pa.types.is_floating(array.type):
        zeroed: I64 = (_numpy(array, 0.0) + 0.0).view(np.int64)  # -0.0 becomes 0.0
        return zeroed
    return _numpy(array.cast(pa.int64()), 0)


def _numpy(array: pa.Array, missing: float) -> npt.NDArray[Any]:
    filled: npt.NDArray[Any] = pc.fill_null(array, missing).to_numpy(zero_copy_only=False)
    return filled


def _figures(plan: StreamPlan, records: Records, holds: BoolMask, mine: I64) -> tuple[U8, I64]:
    """For each row of ``mine`` that some stateless rule holds on (``holds``), the fields that its hit shows.

    The fields that alerts show or are known by, or other rules read, as a JSON object; nothing for the others.
    """
    carried = {f for rule in plan.stateless for f in plan.carried.get(rule.version.rule.rule_id, ())}
    fields = sorted({f for rule in plan.stateless for f in (*rule.shown_fields, *rule.key_fields)} | carried)
    index = pa.array(mine[holds])
    table = {f: records.fields[f].take(index).to_pylist() for f in fields}
    texts = [orjson.dumps({f: table[f][i] for f in fields if table[f][i] is not None}) for i in range(int(holds.sum()))]
    offsets = np.zeros(len(mine) + 1, dtype=np.int64)
    lengths = np.zeros(len(mine), dtype=np.int64)
    lengths[holds] = [len(t) for t in texts]
    np.cumsum(lengths, out=offsets[1:])
    return np.frombuffer(b"".join(texts), dtype=np.uint8), offsets
