"""What a shard of ids is given to decide by: records, the hits on them, what holds at them, and which are copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from crossline.basics import wire
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.evaluate.alerts.origins import Place, origin_of
from crossline.evaluate.decision_memory import Which
from crossline.evaluate.decisions.blocks import OF_RECORDS, RecordBlock, Table, block_of, table_of
from crossline.evaluate.decisions.decision import weight
from crossline.evaluate.decisions.revision import Change, deciding_hit
from crossline.evaluate.ingest_order import take_bytes
from crossline.evaluate.output import Reported
from crossline.evaluate.suppression.rows import SuppressedRows
from crossline.rules.policy.hits import DecidedRecord, DecidingHit
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.spill import body_of
from crossline.state.memory.hashing import xxh64_many


def record_blocks(reported: Reported, bound_ms: Any, shards: int) -> Iterator[tuple[int, RecordBlock]]:
    """The records that are decided about though nothing holds at them, as a block for each shard of their ids."""
    judged = reported.judged
    wanted = np.flatnonzero(~reported.duplicates & (judged.batch.lateness_ms <= bound_ms))
    ids = judged.batch.id_bytes, judged.batch.id_offsets
    if len(wanted) < len(judged.batch):
        ids = take_bytes(*ids, wanted)
    yield from _by_shard(judged, wanted, ids, shards)


def standing_blocks(held: SuppressedRows, chosen: Any, shards: int) -> Iterator[tuple[int, RecordBlock]]:
    """The records at which rules hold and raise no alert, of the reasons that are ``chosen`` (bool[n])."""
    used = np.unique(held.reason_row[chosen])
    data, offsets = held.ids()
    place = np.full(len(held.rows), -1, np.int64)
    place[used] = np.arange(len(used))
    reasons = {
        "reason_row": place[held.reason_row[chosen]],
        "version": held.version[chosen].astype(np.int64),
        "alert": held.alert[chosen],
        "named": held.named[chosen],
        "key_hash": held.key_hash[chosen],
    }
    versions = [(each.rule.rule_id, each.rule.version) for each in held.versions]
    yield from _by_shard(held.judged, held.rows[used], take_bytes(data, offsets, used), shards, versions, reasons)


def _by_shard(
    judged: JudgedRows,
    rows: Any,
    ids: tuple[Any, Any],
    shards: int,
    versions: Sequence[tuple[str, int]] = (),
    reasons: wire.Arrays | None = None,
) -> Iterator[tuple[int, RecordBlock]]:
    of = xxh64_many(*ids) % np.uint64(shards) if shards > 1 else np.zeros(len(rows), np.uint64)
    chunks = [(*origin_of(judged.plan, log), sequence, partition) for log, sequence, partition in judged.chunks]
    for shard in range(shards):
        mine = np.flatnonzero(of == np.uint64(shard))
        if not len(mine):
            continue
        id_bytes, id_offsets = ids if len(mine) == len(rows) else take_bytes(*ids, mine)
        records = {name: _column(judged, name, rows[mine]) for name in OF_RECORDS}
        records |= {"id_bytes": id_bytes, "id_offsets": id_offsets}
        yield shard, block_of(chunks, versions, records, _reasons_of(reasons, mine, len(rows)))


def _column(judged: JudgedRows, name: str, rows: Any) -> Any:
    if name == "event_ms":
        return judged.events_ms(rows)
    return judged.batch.ingest_ms[rows] if name == "ingest_ms" else judged.rows[name][rows].astype(np.int64)


def _reasons_of(reasons: wire.Arrays | None, mine: Any, rows: int) -> wire.Arrays | None:
    """Those of the rows numbered ``mine``, by their numbers among these."""
    if reasons is None:
        return None
    place = np.full(rows, -1, np.int64)
    place[mine] = np.arange(len(mine))
    row = place[reasons["reason_row"]]
    at = np.flatnonzero(row >= 0)
    return {**{name: array[at] for name, array in reasons.items()}, "reason_row": row[at]}


@dataclass(slots=True)
class DecisionInput:
    """All of it, of one batch."""

    records: dict[Which, tuple[Place, DecidedRecord]] = field(default_factory=dict)
    hits: defaultdict[Which, list[DecidingHit]] = field(default_factory=lambda: defaultdict(list))
    copies: set[Which] = field(default_factory=set)
    changes: list[tuple[list[Any], Which, DecidedRecord, Change]] = field(default_factory=list)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    blocks: list[RecordBlock] = field(default_factory=list)

    @staticmethod
    def of(bodies: Sequence[bytes | memoryview]) -> DecisionInput:
        """What ``bodies`` say."""
        found = DecisionInput()
        for body in bodies:
            found._take(body_of(body))
        return found

    def _take(self, body: bytes | memoryview) -> None:
        """Take packed blocks of records, or changes of hits."""
        if bytes(body[:1]) != b"{":
            self.blocks.append(RecordBlock(*wire.decode(body, "records to decide about")))
            return
        self.take(orjson.loads(body))

    def take(self, body: Mapping[str, Any]) -> None:
        """The text of hits, as JSON values."""
        for at, record, hit in body["hits"]:
            place: Place = tuple(at)
            which = place[1], place[5], place[4]
            self.records[which] = place, DecidedRecord(**record)
            self.hits[which].append(deciding_hit(hit))
        for order, because, stands, at, record, fields in body.get("changes", ()):
            hit = deciding_hit(fields)
            change = Change(hit.reason_id, because, hit if stands else None)
            self.changes.append((order, (at[1], at[5], at[4]), DecidedRecord(**record), change))
        for stream, logs in body.get("clocks", {}).items():
            known = self.clocks.setdefault(stream, {})
            known |= {log: max(ms, known.get(log, ms)) for log, ms in logs.items()}
        self.copies.update((stream, partition, offset) for stream, partition, offset in body["copies"])

    def table(self, snapshot: PlanSnapshot) -> Table | None:
        """The records of all blocks; None where there are none."""
        if not self.blocks:
            return None
        rules: Mapping[tuple[str, int], Any] = {
            (each.rule.rule_id, each.rule.version): each.rule for each in snapshot.rules.versions
        }
        return table_of(self.blocks, rules.__getitem__, weight)

    def take_one_by_one(self, table: Table, numbers: Sequence[int]) -> None:
        """Add the records ``numbers`` of ``table``, with their standing reasons, to the records with hits."""
        for number in numbers:
            which = table.which(number)
            if which not in self.records:
                self.records[which] = table.place(number), table.record(number)
            standing = table.hits(number)
            if standing:
                self.hits[which] += standing

    def decidable(self) -> Iterator[tuple[Place, DecidedRecord, Sequence[DecidingHit]]]:
        """The records that are decided about, in their order."""
        wanted = [which for which in self.records if which not in self.copies]
        for which in sorted(wanted, key=lambda each: self.records[each][0]):
            yield *self.records[which], self.hits.get(which, ())
