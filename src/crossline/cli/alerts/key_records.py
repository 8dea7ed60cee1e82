"""The records of an alert's key around its window, read back from their sources: before it, in it, and up to now."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.timeline_builder import BEFORE
from crossline.backtest.record_search import SourceRecord, event_ms, same_value
from crossline.basics.conditions.evaluation import lookup
from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import format_duration, parse_instant_ms
from crossline.cli.alerts.lake_source import LakeSource
from crossline.cli.alerts.record_origin import RecordOrigin, back_of
from crossline.cli.alerts.records import Refused, others_of
from crossline.io.stores.protocol import StoredAlert
from crossline.programs.program import Program

RECORDS_MAX = 5_000  # of the key
OLD_MAX = 512  # records in a row that are older than what is looked for, after which no more are read
AFTER_MS = 86_400_000  # of the lake, what came after the alert is read for so long at least
_LOOK_EACH = 256
Keys = Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class KeyRecords:
    """The records of a key.

    Attributes:
        records: The records, in the order of arrival.
        since_ms: The event time from which they are complete, epoch ms.
        missing: The parts that were not read, one sentence each.
        read_from: Where they were read, where the pipeline has a lake: ``lake`` or ``source``.
    """

    records: list[KeyRecord] = field(default_factory=list)
    since_ms: int = 0
    missing: list[str] = field(default_factory=list)
    read_from: str | None = None


@dataclass(slots=True)
class _Read:
    """One reading backwards: rows of the keys, the latest first, each with the highest event time up to it."""

    rows: list[tuple[SourceRecord, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    reached: bool = False
    met: bool = False
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far is read: back to ``since_ms``, and ``slack_ms`` further, as records may come so late.

    ``alone``: the rule looks at the record alone, and no other is read for.
    """

    since_ms: int
    slack_ms: int
    alone: bool = False


def around(
    stored: StoredAlert, origin: RecordOrigin, body: Mapping[str, Any], program: Program, refused: Refused, for_s: float
) -> KeyRecords:
    """Read the records of an alert's key, bounded by their number and by ``for_s`` seconds.

    Raises CrosslineError if the origin has no such stream, or its source cannot be read.
    """
    alert = stored.alert
    spec = origin.streams.get(alert["stream"])
    if spec is None:
        raise UsageError(f"the alert is of stream {alert['stream']}; found the streams {', '.join(origin.streams)}")
    end_s = time.monotonic() + for_s
    reach = reach_of(alert, program)
    found = KeyRecords(since_ms=reach.since_ms)
    if reach.alone:
        streams: dict[str, Keys] = {alert["stream"]: [{spec.id: alert["record_id"]}]}
    else:
        streams = {alert["stream"]: keys_of(alert, program), **_looked_at(alert, origin, body)}
    if origin.lake is not None:
        found.read_from = "source"
        if origin.lake.covers(stored) and _of_lake(origin.lake, alert, origin, streams, reach, found, refused):
            found.read_from = "lake"
            return found
    for number, (stream, keys) in enumerate(streams.items()):
        until_s = time.monotonic() + max(0.0, end_s - time.monotonic()) / (len(streams) - number)
        try:
            read = _of_stream(stored, stream, origin, keys, reach, until_s, found)
        except UsageError as error:
            if stream == alert["stream"]:
                raise
            found.missing.append(f"stream {stream} was not read: {error}")
            continue
        found.records += _records(stream, origin.streams[stream], read, refused)
    found.records.sort(key=lambda each: each.ingest_ms)
    return found


def _of_lake(
    lake: LakeSource,
    alert: Mapping[str, Any],
    origin: RecordOrigin,
    streams: Mapping[str, Keys],
    reach: Reach,
    found: KeyRecords,
    refused: Refused,
) -> bool:
    """Read the records from the lake, up to a window and a day after the alert.

    False: the lake cannot be read, or does not have the alert's record; nothing was added.
    """
    at_ms = parse_instant_ms(alert["event_time"])
    first_ms = at_ms if reach.alone else reach.since_ms - reach.slack_ms
    last_ms = at_ms if reach.alone else at_ms + max(at_ms - reach.since_ms, AFTER_MS)
    records: list[KeyRecord] = []
    since_ms, missing = found.since_ms, list[str]()
    for stream, keys in streams.items():
        spec, read = origin.streams[stream], _Read()
        upto = lake.of_keys(stream, spec, keys, first_ms, at_ms, RECORDS_MAX)
        after = lake.of_keys(stream, spec, keys, at_ms + 1, last_ms, RECORDS_MAX)
        if upto is None or after is None:
            return False
        for each in sorted([*upto, *after], key=lambda row: row.ingest_ms):
            read.times.append(each.event_ms)
            _take(read, each.record, spec, keys, alert["record_id"] if stream == alert["stream"] else "")
        if stream == alert["stream"] and not read.met:
            return False
        if len(upto) == RECORDS_MAX:
            oldest = min(each.event_ms for each in upto)
            missing.append(f"of {stream} the last {RECORDS_MAX:,} records of the key were read")
            since_ms = max(since_ms, oldest + reach.slack_ms)
        ingest = [each.ingest_ms for each in sorted([*upto, *after], key=lambda row: row.ingest_ms)]
        read.rows = [(row, ingest[place]) for row, place in read.rows]
        records += _records(stream, spec, read, refused)
    found.records = sorted(records, key=lambda each: each.ingest_ms)
    found.since_ms = since_ms
    found.missing += missing
    return True


def reach_of(alert: Mapping[str, Any], program: Program) -> Reach:
    """Back to the far edge of the longest window, and a fifth of it before."""
    figures = [*program.figures, *(each for cross_key in program.cross_key for each in cross_key.figures.values())]
    lengths = [each.window.reach_ms for each in figures]
    if program.verdict is not None:
        lengths.append(program.verdict.span_ms)
    longest = max(lengths, default=0)
    slack_ms = program.feed.allowed_lateness_ms
    at_ms = parse_instant_ms(alert["event_time"])
    return Reach(at_ms - longest - longest // BEFORE, 0 if slack_ms is None else slack_ms, program.verdict is None)


def keys_of(alert: Mapping[str, Any], program: Program) -> Keys:
    """The keys whose records count: the alert's, and those of figures of other keys that its evidence has."""
    record = {**(alert.get("record") or {}), **alert["evidence"].get("fields", {}), **alert["key"]}
    keys = [dict(alert["key"])]
    for cross_key in program.cross_key:
        names = cross_key.program.feed.key_fields
        if all(name in record for name in names):
            keys.append({name: record[name] for name in names})
    return keys


def _looked_at(alert: Mapping[str, Any], origin: RecordOrigin, body: Mapping[str, Any]) -> dict[str, Keys]:
    others = others_of(alert["stream"], origin, body)
    return {
        stream: [{names.get(here, here): value for here, value in alert["key"].items()}]
        for stream, names in others.items()
    }


def _of_stream(
    stored: StoredAlert, stream: str, origin: RecordOrigin, keys: Keys, reach: Reach, until_s: float, found: KeyRecords
) -> _Read:
    """From the end of the source back; where its end is too far away, from the alert's record."""
    own, spec = stream == stored.alert["stream"], origin.streams[stream]
    wanted = stored.alert["record_id"] if own else ""
    now_ms = time.time_ns() // 1_000_000
    half_s = time.monotonic() + (until_s - time.monotonic()) / 2
    read = _Read()
    try:
        if not reach.alone or stored.position is None:
            read = _read(replace(stored, position=None), stream, origin, keys, reach, half_s, wanted, now_ms)
    except CrosslineError as error:
        if stored.position is None or not own:
            raise
        read.gone.append(str(error))
    if own and not read.met and stored.position is not None:
        read = _read(stored, stream, origin, keys, reach, until_s, wanted, None)
        if not reach.alone:
            found.missing.append("what came after the alert was not read: the end of the source is too far away")
    if not read.reached:
        oldest = min(read.times, default=None)
        text = f"of {stream} not all was read that its windows reach back to"
        found.missing.append(
            f"{text}: {format_duration(max(0, (oldest or reach.since_ms) - reach.since_ms))} are missing"
        )
        found.since_ms = max(found.since_ms, (oldest or reach.since_ms) + reach.slack_ms)
    found.missing += list(dict.fromkeys(read.gone))[:3]
    return _with_spec(read, spec)


def _with_spec(read: _Read, spec: StreamSpec) -> _Read:
    """The rows in the order of arrival, each with its ingest time."""
    highest = list(itertools.accumulate(reversed(read.times), max))
    read.rows = [(row, _ingest(spec, row, highest[len(read.times) - 1 - place])) for row, place in reversed(read.rows)]
    return read


def _ingest(spec: StreamSpec, row: SourceRecord, highest_ms: int) -> int:
    found = event_ms(spec.ingest_time, row.fields) if spec.ingest_time is not None else None
    return highest_ms if found is None else found


def _read(
    stored: StoredAlert,
    stream: str,
    origin: RecordOrigin,
    keys: Keys,
    reach: Reach,
    until_s: float,
    wanted: str,
    came_ms: int | None,
) -> _Read:
    spec, read, old = origin.streams[stream], _Read(), 0
    stop_ms = reach.since_ms - reach.slack_ms
    with ExitStack() as stack:
        back = back_of(stored, stream, origin, spec, until_s, stack, came_ms)
        for side_inputs, row in enumerate(back.rows(())):
            if row is not None:
                at_ms = event_ms(spec.event_time, row.fields)
                if at_ms is not None:
                    read.times.append(at_ms)
                    old = old + 1 if at_ms < stop_ms else 0
                    _take(read, row, spec, keys, wanted)
            if old >= OLD_MAX or (reach.alone and read.met):
                read.reached = True
                break
            if len(read.rows) >= RECORDS_MAX or ((row is None or side_inputs % _LOOK_EACH == 0) and _over(until_s)):
                break
        else:
            read.reached = True
        read.gone = list(back.gone)
    return read


def _over(until_s: float) -> bool:
    return time.monotonic() >= until_s


def _take(read: _Read, row: SourceRecord, spec: StreamSpec, keys: Keys, wanted: str) -> None:
    """Keep a row of one of the keys, with its place among all that were read."""
    own = spec.own_columns
    for key in keys:
        if all(same_value(lookup(row.fields, name), value) for name, value in key.items() if name in own):
            read.rows.append((row, len(read.times) - 1))
            read.met = read.met or str(lookup(row.fields, spec.id)) == wanted
            return


def _records(stream: str, spec: StreamSpec, read: _Read, refused: Refused) -> Iterator[KeyRecord]:
    ids = [str(lookup(row.fields, spec.id)) for row, _ in read.rows]
    left_out: Collection[tuple[str, int]] = refused(stream, ids)
    seen: set[str] = set()
    for (row, ingest_ms), record_id in zip(read.rows, ids, strict=True):
        at_ms = event_ms(spec.event_time, row.fields)
        if at_ms is not None and (row.partition, row.offset) not in left_out and record_id not in seen:
            seen.add(record_id)  # an id that comes again is a copy of a record
            yield KeyRecord(stream, record_id, at_ms, ingest_ms, row.fields)
