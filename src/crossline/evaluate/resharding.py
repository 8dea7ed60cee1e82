"""The log of some shards as the log of another number of them: the same records, each where its key is now judged.

A segment is split by key and never computed again, so a reader of the new log has the same state as a reader of the
old one. What came of one old shard stays together: all records of a key come from one, in their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import xxhash

from crossline.basics import wire
from crossline.basics.values import I64
from crossline.evaluate.state_log import CROSSED, crossed_of
from crossline.state.batch import Delta, take
from crossline.state.memory.hashing import xxh64_many
from crossline.state.retraction.partition import parted

Blob = tuple[Mapping[str, Any], wire.Arrays]


def resharded(blobs: Sequence[Blob], shards: int, kept_from: int) -> list[bytes]:
    """Splits the segments of one batch by key, for ``shards`` new shards.

    ``kept_from``: the first batch that the new log has.
    """
    state_stores: list[list[dict[str, Any]]] = [[] for _ in range(shards)]
    arrays: list[wire.Arrays] = [{} for _ in range(shards)]
    for meta, given in blobs:
        for number, item in enumerate(meta["state_stores"]):
            prefix = f"{number}."
            mine = {name.removeprefix(prefix): a for name, a in given.items() if name.startswith(prefix)}
            crossed = crossed_of(mine)
            for shard, delta in _cut(Delta.of(mine), shards):
                into = f"{len(state_stores[shard])}."
                arrays[shard] |= {f"{into}{name}": array for name, array in delta.arrays().items()}
                if crossed is not None:  # a key at which a rule holds has records in the batch
                    of_keys = _shards_of(xxh64_many(crossed.key_bytes, crossed.key_offsets), shards)
                    part = crossed.take(np.flatnonzero(of_keys == shard)).arrays()
                    arrays[shard] |= {f"{into}{CROSSED}{name}": array for name, array in part.items()}
                clock_ms = delta.batch.clock_ms
                newest_ms = int(clock_ms.max()) if len(clock_ms) else None
                state_stores[shard].append(
                    {"state_store": item["state_store"], "lines": item["lines"], "clock_ms": newest_ms}
                )
    contexts = _contexts([meta.get("contexts", {}) for meta, _ in blobs], shards)
    metas = [meta for meta, _ in blobs]
    common = {
        "batch": metas[0]["batch"],
        "kept_from": kept_from,
        "log_clock": _merged([meta["log_clock"] for meta in metas]),
        # All shards have the same clocks. If not, a due hit is emitted twice rather than never; its id is the same.
        "told_ms": _least([meta.get("told_ms", {}) for meta in metas]),
    }
    return [
        wire.encode({**common, "contexts": contexts[shard], "state_stores": state_stores[shard]}, arrays[shard])
        for shard in range(shards)
    ]


def whole(blobs: Sequence[Blob]) -> tuple[dict[str, Any], wire.Arrays]:
    """Merges the segments of one batch from all shards into one, for a state that has all keys.

    A state store stands in it once for each shard that had records of it: it has to be loaded whole before time passes
    in it, which ``apply_delta`` does. For who only reads: nothing is cut, and nothing is copied.
    """
    state_stores: list[Mapping[str, Any]] = []
    arrays: wire.Arrays = {}
    contexts: dict[str, dict[str, list[Any]]] = {}
    for meta, given in blobs:
        for name, array in given.items():
            number, _, rest = name.partition(".")
            arrays[f"{int(number) + len(state_stores)}.{rest}"] = array
        state_stores += meta["state_stores"]
        for state_store, changes in meta.get("contexts", {}).items():
            known = contexts.setdefault(state_store, {"came": [], "went": []})
            for what in known:
                known[what] += changes[what]
    metas = [meta for meta, _ in blobs]
    common = {
        "batch": metas[0]["batch"],
        "kept_from": min(meta["kept_from"] for meta in metas),
        "log_clock": _merged([meta["log_clock"] for meta in metas]),
        "told_ms": _least([meta.get("told_ms", {}) for meta in metas]),
    }
    return {**common, "contexts": contexts, "state_stores": state_stores}, arrays


def _cut(delta: Delta, shards: int) -> list[tuple[int, Delta]]:
    """The parts of ``delta`` that are not empty, each with its shard."""
    if "said" in delta.more:
        return _cut_decisions(delta, shards)
    batch, more = delta.batch, delta.more
    shard_of_row = _shards_of(batch.key_hash, shards)[batch.key_index]
    changed = np.zeros(0, np.int64)
    if "changed_key_offsets" in more:
        changed = _shards_of(xxh64_many(more["changed_key_bytes"], more["changed_key_offsets"]), shards)
    found = []
    for shard in np.unique(np.concatenate([shard_of_row, changed])).tolist():
        rows, others = np.flatnonzero(shard_of_row == shard), np.flatnonzero(changed == shard)
        place = np.full(len(batch), -1, np.int32)
        place[rows] = np.arange(len(rows))
        emitted = place[delta.emitted_row] >= 0
        mine = Delta(
            take(batch, rows.astype(np.int32)),
            delta.sat[rows],
            delta.emitted_line[emitted],
            place[delta.emitted_row[emitted]],
            parted(more, rows, others) if more else {},
        )
        found.append((shard, mine))
    return found


def _cut_decisions(delta: Delta, shards: int) -> list[tuple[int, Delta]]:
    """Records that were decided about, by their ids; copies, of which no id is known, in all shards."""
    body = orjson.loads(delta.more["said"].tobytes())
    of: list[int | None] = [
        None if known is None else xxhash.xxh64_intdigest(known["record"]["record_id"].encode()) % shards
        for *_, known in body
    ]
    found = []
    for shard in range(shards):
        rows = [row for row, mine in enumerate(of) if mine is None or mine == shard]
        if rows:
            raw = np.frombuffer(orjson.dumps([body[row] for row in rows]), np.uint8)
            batch = replace(delta.batch, clock_ms=delta.batch.clock_ms[rows])
            found.append((shard, replace(delta, batch=batch, more={"said": raw})))
    return found


def _shards_of(hashes: Any, shards: int) -> I64:
    of: I64 = (hashes % np.uint64(shards)).astype(np.int64)
    return of


def _contexts(given: Sequence[Mapping[str, Any]], shards: int) -> list[dict[str, Any]]:
    """What the batch changed of records that wait for context, by the shards of their keys."""
    found: list[defaultdict[str, dict[str, list[Any]]]] = [
        defaultdict(lambda: {"came": [], "went": []}) for _ in range(shards)
    ]
    keys: Mapping[str, Callable[[Any], str]] = {"came": lambda each: each["key"], "went": lambda each: each[2]}
    for state_stores in given:
        for state_store, changes in state_stores.items():
            for name, key_of in keys.items():
                for each in changes[name]:
                    shard = xxhash.xxh64_intdigest(key_of(each).encode("latin-1")) % shards
                    found[shard][state_store][name].append(each)
    return [dict(each) for each in found]


def _merged(clocks: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """How far each log was read."""
    merged: dict[str, dict[str, int]] = {}
    for each in clocks:
        for stream, logs in each.items():
            known = merged.setdefault(stream, {})
            known |= {log: max(ms, known.get(log, ms)) for log, ms in logs.items()}
    return merged


def _least(marks: Sequence[Mapping[str, int]]) -> dict[str, int]:
    streams = {stream for each in marks for stream in each}
    return {stream: min(each[stream] for each in marks) for stream in streams if all(stream in each for each in marks)}
