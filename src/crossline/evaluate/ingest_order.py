"""Putting the parts of a batch into ingest order and giving each record its ingest time.

Within a log the order is sequence, then row. Across logs it is ingest time, then the log's name. Where a log has no
ingest time of its own, a record's is the running maximum of event time over the whole log, so each chunk carries its
own running maximum and the shard adds what came before it.

Ingest times from senders may decrease within a log. Then a record is placed among other logs by the highest ingest time
of its log so far (``reached_ms``). It is the maximum over all records of the log, not over those that one shard or
state store sees: the order must not depend on the number of shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64, U8
from crossline.basics.wire import Arrays, WirePart
from crossline.ingest.route.texts import bytes_of
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.stream_join import arrival_log


def chunk_floors(parts: Iterable[WirePart], log_clock: dict[str, int]) -> dict[tuple[str, int], int]:
    """The clock of its log before each chunk, by (log, sequence); ``log_clock`` is moved on past these chunks.

    ``parts`` are the accounting store's, of which every shard sees one per chunk.
    """
    floors: dict[tuple[str, int], int] = {}
    for meta, _ in sorted(parts, key=lambda p: (p[0]["log"], p[0]["sequence"])):
        log, clock = meta["log"], meta["clock_ms"]
        before = log_clock.get(log)
        floors[log, meta["sequence"]] = before if before is not None else NO_FLOOR
        if clock is not None:
            log_clock[log] = clock if before is None else max(before, clock)
    return floors


def follow(plans: Iterable[StreamPlan], log_clock: dict[str, dict[str, int]]) -> None:
    """Before a batch, plans of other clocks than event time stand where their streams do, whenever they came."""
    for plan in plans:
        if plan.clock is not None:
            own = log_clock.setdefault(plan.stream, {})
            for log, clock_ms in log_clock.get(plan.base, {}).items():
                own[log] = max(clock_ms, own.get(log, clock_ms))


def settled(part: WirePart, floors: Mapping[tuple[str, int], int]) -> WirePart:
    """The part as it is at the records' ingest times, which only the shard knows of a running log.

    Each bit: one that turns an even number of times up to then is what it was. And of a record that stands in several
    forms (see ``Records.spans``), the one that is true then.
    """
    meta, arrays = part
    if not _UNSETTLED & arrays.keys():
        return part
    ingest_ms = np.maximum(arrays["clock_ms"], floors[meta["log"], meta["sequence"]])
    whole = {
        name: array for name, array in arrays.items() if "_turn_" not in name and name not in ("from_ms", "until_ms")
    }
    for name in ("bits", "stateless"):
        if f"{name}_turn_ms" in arrays:
            rows, bits, instants_ms = (arrays[f"{name}_turn_{what}"] for what in ("row", "bit", "ms"))
            come = instants_ms <= ingest_ms[rows]
            whole[name] = whole[name].copy()
            turned = np.left_shift(1, bits[come] % 8).astype(np.uint8)
            np.bitwise_xor.at(whole[name], (rows[come], bits[come] // 8), turned)
    if "from_ms" in arrays:
        true = (arrays["from_ms"] <= ingest_ms) & (ingest_ms < arrays["until_ms"])
        whole = take_rows(whole, np.flatnonzero(true))
    return meta, whole


FEW = 128  # rows
_UNSETTLED = {"bits_turn_ms", "stateless_turn_ms", "from_ms"}
NO_FLOOR = -(2**62)


def in_ingest_order(
    parts: Sequence[WirePart],
    floors: Mapping[tuple[str, int], int],
    *,
    reached: bool = False,
    of_hits: bool = False,
) -> Arrays:
    """The rows of one state store, from all its chunks, in ingest order.

    ``ingest_ms`` and ``chunk`` (number among the parts by log and sequence) are added, and where it is requested
    ``reached``, the highest ingest time that the row's log had reached. ``of_hits``: hits may be among them, some known
    later than their records came, which then stand before others of an earlier chunk.

    Of equal times logs come one after the other (see ``arrival_log``), each by sequence and row. Several rows may be of
    one record, where it has several parts: its hits, and itself as a side input. They are in the order of their parts.
    """
    ordered = sorted(parts, key=lambda p: (p[0]["log"], p[0]["sequence"]))
    logs = sorted({p[0]["log"] for p in ordered})
    before = [floors[m["log"], m["sequence"]] for m, _ in ordered]
    clocks = [
        np.maximum(a["clock_ms"], floor) if m["running"] else a["clock_ms"]
        for (m, a), floor in zip(ordered, before, strict=True)
    ]
    whole = _concatenated([a for _, a in ordered])
    whole["ingest_ms"] = np.concatenate(clocks)
    whole["chunk"] = np.repeat(np.arange(len(ordered), dtype=np.int32), [len(c) for c in clocks])
    if reached or of_hits or len(logs) > 1:
        heights = [np.maximum(a.get("reached_ms", a["clock_ms"]), f) for (_, a), f in zip(ordered, before, strict=True)]
        whole["reached"] = np.concatenate(heights)
    came = [(arrival_log(m["log"]), m["sequence"]) for m, _ in ordered]
    several = len(set(came)) < len(came)  # parts of the same records; else the rows of each are in order
    if len(logs) == 1 and not of_hits and not several:
        return whole
    rank = {each: number for number, each in enumerate(sorted(set(came)))}
    came_rank = np.array([rank[each] for each in came])[whole["chunk"]]
    order = [whole["chunk"], whole["offsets"], came_rank] if several else [came_rank]
    return take_rows(whole, np.lexsort([*order, whole["reached"]] if "reached" in whole else order))


_ROW_TEXT = ("id", "figure")  # byte strings per row: NAME_bytes and NAME_offsets


def _numbered(names: Iterable[str]) -> dict[str, str]:
    """Byte strings that rows have by number: their name, and that of the rows' numbers."""
    texts = [name.removesuffix("_offsets") for name in names if name.startswith("text") and name.endswith("_offsets")]
    return {"key": "key_index"} | {name: name.replace("text", "value") for name in texts}


def _concatenated(parts: Sequence[Arrays]) -> Arrays:
    if len(parts) == 1:
        return {name: array.copy() for name, array in parts[0].items() if name != "reached_ms"}
    numbered = _numbered(parts[0])
    text = [name for name in (*_ROW_TEXT, *numbered) if f"{name}_bytes" in parts[0]]
    special = {f"{name}_{part}" for name in text for part in ("bytes", "offsets")} | {*numbered.values(), "reached_ms"}
    own = parts[0]["key_offsets"]
    if all(p["key_offsets"] is own for p in parts):  # of one part (see ``parts_within``): the same keys and texts
        special -= {*numbered.values()}
        stays = {f"{name}_{part}" for name in numbered for part in ("bytes", "offsets", "hash")} & parts[0].keys()
        whole = {name: np.concatenate([p[name] for p in parts]) for name in parts[0] if name not in special | stays}
        whole |= {name: parts[0][name].copy() for name in stays}
        text, numbered = [name for name in text if name not in numbered], {}
    else:
        whole = {name: np.concatenate([p[name] for p in parts]) for name in parts[0] if name not in special}
    for name, rows in numbered.items():
        base = np.cumsum([0] + [len(p[f"{name}_offsets"]) - 1 for p in parts])
        whole[rows] = np.concatenate([p[rows] + np.int32(b) for p, b in zip(parts, base, strict=False)])
    for name in text:
        data = [p[f"{name}_bytes"] for p in parts]
        base = np.cumsum([0] + [len(d) for d in data])
        ends = [p[f"{name}_offsets"][1:] + b for p, b in zip(parts, base, strict=False)]
        whole[f"{name}_bytes"] = np.concatenate(data)
        whole[f"{name}_offsets"] = np.concatenate([np.zeros(1, dtype=np.int64), *ends])
    return whole


def take_rows(whole: Arrays, order: I64) -> Arrays:
    """Rows in another order; keys and texts that rows have by number stay where they are."""
    text = {f"{name}_{part}" for name in _ROW_TEXT for part in ("bytes", "offsets")}
    stays = {f"{name}_{part}" for name in _numbered(whole) for part in ("bytes", "offsets", "hash")}
    found = {name: a if name in stays else a[order] for name, a in whole.items() if name not in text}
    for name in _ROW_TEXT:
        if f"{name}_bytes" in whole:
            found[f"{name}_bytes"], found[f"{name}_offsets"] = take_bytes(
                whole[f"{name}_bytes"], whole[f"{name}_offsets"], order
            )
    return found


def take_bytes(data: U8, offsets: I64, rows: I64) -> tuple[U8, I64]:
    """The byte strings at ``rows``, concatenated, with their offsets."""
    if len(rows) <= FEW:  # a call of Arrow's takes longer
        raw, bounds = data.tobytes(), offsets.tolist()
        found = [raw[bounds[row] : bounds[row + 1]] for row in rows.tolist()]
        ends = np.zeros(len(found) + 1, np.int64)
        np.cumsum(list(map(len, found)), out=ends[1:])
        return np.frombuffer(b"".join(found), np.uint8), ends
    array = pa.Array.from_buffers(
        pa.large_binary(),
        len(offsets) - 1,
        [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))],
    )
    return bytes_of(array.take(pa.array(rows)).cast(pa.binary()))


def filters_in_time(store_plan: StorePlan, bits: U8, lateness_ms: I64) -> U8:
    """``bits`` without the entries that each record is too late for."""
    allowed: dict[int, list[int]] = {}
    for number, entry in enumerate(store_plan.state_store.filters):
        if entry.allowed_lateness_ms is not None:
            allowed.setdefault(entry.allowed_lateness_ms, []).append(number)
    timely = bits
    for bound, numbers in allowed.items():
        late = lateness_ms > bound
        if late.any():
            flags = np.zeros(bits.shape[1] * 8, dtype=np.bool_)
            flags[numbers] = True
            timely = timely.copy() if timely is bits else timely
            timely[late] &= ~np.packbits(flags, bitorder="little")
    return timely
