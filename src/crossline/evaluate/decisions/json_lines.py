"""Decisions that rest on no alert of their own record, as JSON lines, made as columns.

What is decided follows from which rule versions hold. So it is worked out once for each set of them, and what differs
from record to record (ids and times) is put into the text of one, all records of a set at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from crossline.basics.byte_slices import take_bytes
from crossline.basics.times import instant_text
from crossline.basics.uuids import uuid5_many, uuid_text
from crossline.basics.values import I64, U8
from crossline.evaluate.decisions.blocks import Bools, Table
from crossline.evaluate.decisions.columns import DecisionHead
from crossline.evaluate.decisions.decision import NAMESPACE, Decision, decision_line
from crossline.rules.policy.hits import DecidedRecord, DecidingHit

HOLE = b"\x7f"  # a character that JSON leaves as it is, and that no text of a template has
TIME_CHARS = 24
FIRST_MS, END_MS = -62_135_596_800_000, 253_402_300_800_000  # the years 1 to 9999
_MIXED = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

Decide = Callable[[DecidedRecord, Sequence[DecidingHit]], Decision]


@dataclass(frozen=True, slots=True)
class DecisionLines:
    """n decisions as JSON without ends of lines, in no order: ``text`` with ``offsets`` (int64[n + 1]).

    ``record``: int64[n], their numbers in the table. ``ids``: uint8[n, 36], their own ids. ``head``: int64[n], the
    number of each one's head among ``heads``. ``bare``: which have no reason.
    """

    record: I64
    text: U8
    offsets: I64
    ids: U8
    head: I64
    heads: Sequence[DecisionHead]
    bare: Bools


@dataclass(frozen=True, slots=True)
class LineInputs:
    """Inputs of decision lines: ``decide`` maps a record and its hits to a decision, ``digest`` a time to the rules'.

    ``spans``: int64, the ingest times at which that digest changes, ascending. ``decided_ms`` is only written.
    """

    decide: Decide
    digest: Callable[[int], str]
    spans: I64
    decided_ms: int
    policy_version: int
    more: dict[str, Any]


def plain(table: Table, chosen: I64) -> Bools:
    """Which of the records ``chosen`` have ids and times that stand in JSON as they are."""
    columns, at = table.columns, table.first[chosen]
    raw = columns["id_bytes"]
    odd = np.zeros(len(raw) + 1, np.int64)
    np.cumsum((raw < 0x20) | (raw == 0x22) | (raw == 0x5C) | (raw == HOLE[0]), out=odd[1:])
    starts, ends = columns["id_offsets"][at], columns["id_offsets"][at + 1]
    found: Bools = (odd[starts] == odd[ends]) & (ends > starts)
    for name in ("event_ms", "ingest_ms"):
        found &= (columns[name][at] >= FIRST_MS) & (columns[name][at] < END_MS)
    return found


def decided_lines(table: Table, chosen: I64, stream: str, made: LineInputs) -> DecisionLines:
    """The decisions on the records ``chosen`` of a stream, which are ``plain``."""
    columns, at = table.columns, table.first[chosen]
    starts, ends = columns["id_offsets"][at], columns["id_offsets"][at + 1]
    ids, id_offsets = take_bytes(columns["id_bytes"], starts, ends - starts)
    lengths, span = ends - starts, np.searchsorted(made.spans, columns["ingest_ms"][at], side="right")
    names = uuid_text(uuid5_many(NAMESPACE, f"{made.policy_version}\x1f{stream}\x1f".encode(), ids, id_offsets))
    body = {name: times_text(columns[f"{name}_ms"][at]) for name in ("event", "ingest")}
    order, bounds = _groups(_sets(table, chosen), lengths, span)
    texts, sizes, heads = list[U8](), np.zeros(len(chosen), np.int64), dict[DecisionHead, int]()
    head, bare = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.bool_)
    for low, high in pairwise(bounds):
        mine = order[low:high]
        prototype, template = _template(table, int(chosen[mine[0]]), made)
        head[mine] = heads.setdefault(DecisionHead.of(orjson.loads(template)), len(heads))
        bare[mine] = not prototype.reasons
        rows = np.empty((len(mine), len(template)), np.uint8)
        rows[:] = np.frombuffer(template, np.uint8)
        own = ids[id_offsets[mine][:, None] + np.arange(int(lengths[mine[0]]))]
        fill = [names[mine], own, *_alerts(table, chosen[mine]), body["event"][mine], body["ingest"][mine]]
        _fill(rows, template, fill)
        texts.append(rows.reshape(-1))
        sizes[mine] = len(template)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[order])])
    text = np.concatenate(texts) if texts else np.zeros(0, np.uint8)
    return DecisionLines(chosen[order], text, offsets, names[order], head[order], list(heads), bare[order])


def _groups(sets: Any, lengths: I64, span: Any) -> tuple[I64, list[int]]:
    """The records in groups of one template, by their numbers, and where each group begins and ends."""
    mixed = (lengths.astype(np.uint64) * _MIXED[1]) ^ (span.astype(np.uint64) * _MIXED[2])
    _, number = np.unique(sets ^ (mixed ^ (mixed >> np.uint64(31))), return_inverse=True)
    order: I64 = np.argsort(number.astype(np.int32), kind="stable")
    begins = np.flatnonzero(np.diff(number[order], prepend=-1))
    return order, [*begins.tolist(), len(order)]


def _sets(table: Table, chosen: I64) -> Any:
    """For each record one hash of the reasons that it has, in order: of equal ones the text is the same."""
    counts = np.diff(table.reason_at)[chosen]
    place = np.arange(len(table.rank)) - np.repeat(table.reason_at[:-1], np.diff(table.reason_at))
    each = (table.rank * 2 + table.named + 1).astype(np.uint64) * _MIXED[0] + place.astype(np.uint64) * _MIXED[1]
    each = (each ^ (each >> np.uint64(29))) * _MIXED[2]
    upto = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each ^ (each >> np.uint64(32)))])
    return upto[table.reason_at[chosen + 1]] - upto[table.reason_at[chosen]] + counts.astype(np.uint64)


def _template(table: Table, number: int, made: LineInputs) -> tuple[Decision, bytes]:
    """The decision on one record, and its text with holes for what is another record's own."""
    record = table.record(number)
    decision = made.decide(record, table.hits(number))
    digest = made.digest(record.ingest_ms)
    return decision, decision_line(decision, digest, made.decided_ms, made.more, hole=HOLE.decode())


def _alerts(table: Table, records: I64) -> list[U8]:
    """Of records with like reasons the ids of the alerts that these name, one after the other."""
    starts, count = table.reason_at[records], int(np.diff(table.reason_at)[records[0]])
    named = [place for place in range(count) if table.named[starts[0] + place]]
    return [uuid_text(table.alert[starts + place]) for place in named]


def _fill(rows: U8, template: bytes, fill: Sequence[U8]) -> None:
    """Put into the holes of ``template``, of which ``rows`` are copies, what is each row's own."""
    at = 0
    for values in fill:
        at = template.index(HOLE, at)
        rows[:, at : at + values.shape[1]] = values
        at += values.shape[1]
    if template.find(HOLE, at) >= 0:
        raise ValueError("a text of the template has the mark of a hole in it")


def times_text(ms: I64) -> U8:
    """uint8[n, 24]: instants as they are written, of epoch ms within the years 1 to 9999."""
    days, number = np.unique(ms // 86_400_000, return_inverse=True)
    dates = "".join(instant_text(day * 86_400_000) for day in days.tolist()).encode()
    out = np.frombuffer(dates, np.uint8).reshape(-1, TIME_CHARS)[number.reshape(-1)]
    rest = ms % 86_400_000
    for at, unit, modulo in (
        *((11, 36_000_000, 10), (12, 3_600_000, 10), (14, 600_000, 6), (15, 60_000, 10)),
        *((17, 10_000, 6), (18, 1_000, 10), (20, 100, 10), (21, 10, 10), (22, 1, 10)),
    ):
        out[:, at] = rest // unit % modulo + ord("0")
    return out
