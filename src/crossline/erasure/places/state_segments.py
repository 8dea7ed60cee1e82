"""The state log: segments of shards, of all depths, backfills and decided records.

Rows under a key of the person go, with the key's text and what was noted of it. Rows of the person under a key that
others share (a device, a merchant) stay, so that the figures of that key stay: their ids and texts become pseudonyms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics import wire
from crossline.erasure.place import Counts
from crossline.erasure.places.state_texts import (
    fields_of,
    ids_of,
    key_parts,
    scrubbed_texts,
    split,
    stream_of,
    texts_at,
)
from crossline.erasure.subject import Key, Subject, dumped
from crossline.evaluate.state_log import CROSSED, crossed_of
from crossline.io.objects.location import under
from crossline.plan.state_stores import StateStore
from crossline.runtime.state_log.state_log import Segment, StateLog, logs_in
from crossline.state.batch import Delta, take
from crossline.state.retraction.partition import parted

SAID = "said"
_CHANGED = "changed_key"
_ORIGINS = "origins"
_CHUNKS = "more.chunks"


@dataclass(slots=True)
class StatePlace:
    """All logs below the state's root, a folder or a URI.

    Attributes:
        root: The root.
        ids: By stream, the field of its record ids: a state store of that key recognizes duplicates.
        stores: The state stores in use, by name, for those whose records enter under several keys.
    """

    root: str
    ids: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, StateStore] = field(default_factory=dict)
    name: str = "state log"
    needs_stop: bool = True

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return self._each(subject, change=False)

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. A segment is replaced as a whole."""
        return self._each(subject, change=True)

    def _each(self, subject: Subject, *, change: bool) -> Counts:
        total = Counts()
        for within, numbers in logs_in(self.root).items():
            root = under(self.root, within) if within else self.root
            for number in numbers:
                log = StateLog(root, number)
                if change:
                    log.remove_leftovers()
                for segment in log.segments():
                    total += self._segment(subject, log, segment, change=change)
        return total

    def _segment(self, subject: Subject, log: StateLog, segment: Segment, *, change: bool) -> Counts:
        counts, blobs = Counts(), list[bytes]()
        for meta, arrays in log.content(segment):
            treated = _Blob(_Keys(subject, self.ids, self.stores), meta, arrays)
            counts += treated.counts
            blobs.append(wire.encode(treated.meta, treated.arrays))
        if counts.found and change:
            log.replace(segment, blobs)
        return counts.of_file(segment.bytes)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which keys of a state store are the person's."""

    subject: Subject
    ids: Mapping[str, str]
    stores: Mapping[str, StateStore]

    def owns(self, store: str, key: bytes) -> bool:
        """Whether ``key`` is: it has a value of the person in its field, or is the id of a record."""
        known = self.stores.get(store)
        namings = {fields_of(store), *(known.namings if known is not None else ())}
        return any(self._named(stream_of(store), fields, key) for fields in namings)

    def _named(self, stream: str, fields: tuple[str, ...], raw: bytes) -> bool:
        for number, text in key_parts(raw, len(fields)):
            key = Key(fields[number], text)
            if key in self.subject.keys:
                self.subject.met.add(key)
                return True
            if fields == (self.ids.get(stream),) and self.subject.is_id(stream, text):
                return True
        return False


class _Blob:
    """What a batch added to a shard, without the traces."""

    def __init__(self, keys: _Keys, meta: Mapping[str, Any], arrays: wire.Arrays) -> None:
        self._subject = keys.subject
        self._keys = keys
        self.counts = Counts()
        self.arrays: wire.Arrays = {}
        for number, item in enumerate(meta["state_stores"]):
            prefix = f"{number}."
            mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            after = self._store(str(item["state_store"]), mine)
            self.arrays |= {f"{prefix}{name}": array for name, array in after.items()}
        self.meta = {**meta, "contexts": self._contexts(meta.get("contexts", {}))}

    def _store(self, store: str, arrays: wire.Arrays) -> wire.Arrays:
        stream = stream_of(store)
        delta = Delta.of(arrays)
        if SAID in delta.more:
            return self._decided(delta, stream)
        crossed = crossed_of(arrays)
        keys = np.array([self._keys.owns(store, key) for key in _texts(delta.batch, "key")], np.bool_)
        rows = keys[delta.batch.key_index] if len(delta.batch) else np.zeros(0, np.bool_)
        if rows.any():
            for of_stream, record_id in ids_of(_texts(delta.batch, "id"), rows, stream):
                self._subject.add(of_stream, [record_id])
        changed = np.array([self._keys.owns(store, key) for key in texts_at(delta.more, _CHANGED)], np.bool_)
        if keys.any() or changed.any():
            delta = _without(delta, ~rows, ~changed)
        found = delta.arrays()
        if crossed is not None:
            of_person = np.array([self._keys.owns(store, key) for key in texts_at(crossed.arrays(), "key")], np.bool_)
            crossed = crossed.take(np.flatnonzero(~of_person)) if of_person.any() else crossed
            found |= {f"{CROSSED}{name}": array for name, array in crossed.arrays().items()}
        found, mentions = self._scrubbed(found, stream)
        gone = int(rows.sum()) + int(changed.sum())
        kept = max(0, len(delta.batch) - mentions)
        self.counts += Counts(gone, mentions, kept)
        return found

    def _scrubbed(self, arrays: wire.Arrays, stream: str) -> tuple[wire.Arrays, int]:
        """Texts with a trace become pseudonyms; how many rows that may be."""
        after, mentions = scrubbed_texts(self._subject, arrays, stream)
        if _ORIGINS in after:
            table = pa.ipc.open_stream(pa.py_buffer(after[_ORIGINS])).read_all()
            rows = table.to_pylist()
            new = [self._subject.scrub(row, stream) for row in rows]
            if new != rows:
                mentions += sum(a != b for a, b in zip(rows, new, strict=True))
                after[_ORIGINS] = _as_bytes(pa.Table.from_pylist(new, schema=_plain(table.schema)))
        return after, mentions

    def _decided(self, delta: Delta, stream: str) -> wire.Arrays:
        """Records that were decided about: those of the person go, with what is known of them."""
        body = orjson.loads(delta.more[SAID].tobytes())
        gone = [self._of_person(known, stream) for *_, known in body]
        kept = [row for row, out in zip(body, gone, strict=True) if not out]
        after = [[*where, self._subject.scrub(known, stream)] for *where, known in kept]
        changed = sum(a != b for a, b in zip(kept, after, strict=True))
        self.counts += Counts(sum(gone), changed, len(kept) - changed)
        if not any(gone) and not changed:
            return delta.arrays()
        stays = ~np.array(gone, np.bool_)
        batch = replace(delta.batch, clock_ms=delta.batch.clock_ms[stays])
        raw = np.frombuffer(dumped(after).encode(), np.uint8)
        return replace(delta, batch=batch, more={SAID: raw}).arrays()

    def _of_person(self, known: Any, stream: str) -> bool:
        if not isinstance(known, dict):
            return False
        record = known.get("record")
        return self._subject.owns(known, stream) or (
            isinstance(record, dict) and self._subject.is_id(stream, record.get("record_id"))
        )

    def _contexts(self, contexts: Mapping[str, Any]) -> dict[str, Any]:
        """Records that wait for others: those under a key of the person go."""
        found: dict[str, Any] = {}
        for store, changes in contexts.items():
            stream = stream_of(store)
            came = [each for each in changes["came"] if not self._keys.owns(store, each["key"].encode("latin-1"))]
            went = [each for each in changes["went"] if not self._keys.owns(store, each[2].encode("latin-1"))]
            gone = len(changes["came"]) - len(came) + len(changes["went"]) - len(went)
            after = {"came": self._subject.scrub(came, stream), "went": self._subject.scrub(went, stream)}
            changed = sum(a != b for a, b in zip([*came, *went], [*after["came"], *after["went"]], strict=True))
            self.counts += Counts(gone, changed)
            found[store] = after
        return found


def _texts(batch: Any, name: str) -> list[bytes]:
    return split(getattr(batch, f"{name}_bytes"), getattr(batch, f"{name}_offsets"))


def _without(delta: Delta, rows: Any, changed: Any) -> Delta:
    """A delta with the rows and the changes of earlier rows that are chosen; as for another number of shards."""
    chosen = np.flatnonzero(rows)
    place = np.full(len(delta.batch), -1, np.int32)
    place[chosen] = np.arange(len(chosen))
    emitted = place[delta.emitted_row] >= 0
    return Delta(
        take(delta.batch, chosen.astype(np.int32)),
        delta.sat[chosen],
        delta.emitted_line[emitted],
        place[delta.emitted_row[emitted]],
        parted(delta.more, chosen, np.flatnonzero(changed)) if delta.more else {},
    )


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries, as values can be put into it."""
    return pa.schema(
        [
            pa.field(each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
            for each in schema
        ]
    )


def _as_bytes(table: pa.Table) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)
