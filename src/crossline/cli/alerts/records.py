"""The records of an alert, as ``crossline alerts show`` prints them: read again from the sources of its pipeline."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.basics.streams.clocks import clock_of
from crossline.basics.streams.inputs import rule_of
from crossline.basics.texts.plaintext import printable
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.cli.terminal.tables import Listing
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.protocol import StoredAlert

if TYPE_CHECKING:
    from crossline.backtest.record_search import FoundRecords, SourceRecord
    from crossline.basics.streams.schema import StreamSpec
    from crossline.cli.alerts.record_origin import RecordOrigin

# What of a rule's body names no field, though it may look so.
_NO_FIELDS = {"rule_id", "rule_type", "owner", "tags", "status", "severity", "action", "source_topic", "sink_topic"}
# Of ids of a stream the places, by partition and offset, of records that have one and do not count.
Refused = Callable[[str, Collection[str]], Collection[tuple[str, int]]]
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LISTED_MAX = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """The records of one alert: those that were found, and why others were not.

    ``ids``: of all of them, oldest first. ``fields``: those that the key, the rule and its sentence name. ``others``:
    the streams of records that are not of the alert's own, by record id, with what these look like. ``read_from``:
    where they were read, and ``notes``, why elsewhere they were not; ``counts``: how many are from the lake and
    from their sources.
    """

    spec: StreamSpec
    ids: list[str]
    found: FoundRecords
    fields: list[str]
    why: list[str]
    others: Mapping[str, tuple[str, StreamSpec]] = field(default_factory=dict)
    read_from: str = ""
    notes: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Each record whole, where they were read, and why some are missing."""
        records = [self._one(record_id) for record_id in self.ids]
        counts = {"records_from": dict(self.counts)} if self.counts else {}
        why = [*self.why, *self.notes] if self.why else []
        return {"records": records, **counts, **({"records_missing": why} if why else {})}

    def _one(self, record_id: str) -> dict[str, Any]:
        row = self.found.rows.get(record_id)
        if row is None:
            return {"record_id": record_id, "found": False}
        place = {"partition": row.partition, "offset": row.offset}
        at = {"event_time": self._time(record_id, row) or None}
        of = {"stream": self.others[record_id][0]} if record_id in self.others else {}
        return {"record_id": record_id, "found": True, **of, **at, **place, "fields": _plain(row.fields)}

    def _time(self, record_id: str, row: SourceRecord) -> str:
        from crossline.backtest.record_search import event_ms

        _, spec = self.others.get(record_id, ("", self.spec))
        at_ms = event_ms(spec.event_time, row.fields)
        return "" if at_ms is None else format_instant(at_ms)

    def as_table(self) -> RenderableType:
        """A line each, in the order of the evidence."""
        from crossline.basics.conditions.evaluation import lookup

        streams = ["stream"] if self.others else []
        table = Listing("", "record", *streams, "time", *self.fields, long=self.fields)
        for number, record_id in enumerate(self.ids, 1):
            row = self.found.rows.get(record_id)
            of = [self.others.get(record_id, ("", None))[0] for _ in streams]
            if row is None:
                table.add(str(number), record_id, *of, Text("not found", "dim"), *[""] * len(self.fields))
            else:
                values = [_text(lookup(row.fields, name)) for name in self.fields]
                table.add(str(number), record_id, *of, self._time(record_id, row), *values)
        sentences = filter(None, (self.read_from, *self.notes, *self.why))
        return Group(table, *(Text(printable(sentence)) for sentence in sentences))


def seen(
    stored: StoredAlert,
    origin: RecordOrigin,
    body: Mapping[str, Any] | None,
    refused: Refused,
    for_s: float,
) -> Seen:
    """Look for the records of an alert for at most ``for_s`` seconds: in its own stream, then in those it rests on too.

    ``body``: that of its rule, if known. ``refused``: the places of the records that do not count, by ids of a stream
    (see ``RecordQuery``). Raises CrosslineError if the origin has no such stream, or its source cannot be read.
    """
    from crossline.backtest.record_search import RecordQuery
    from crossline.cli.alerts.finding import RecordFinder

    alert = stored.alert
    spec = origin.streams.get(alert["stream"])
    if spec is None:
        raise UsageError(f"the alert is of stream {alert['stream']}; found the streams {', '.join(origin.streams)}")
    ids = list(alert["evidence"]["record_ids"])
    if alert["record_id"] not in ids:  # its window is of the records before it
        ids.append(alert["record_id"])
    own = dict.fromkeys(ids)
    ids += [each for each in _context(alert) if each not in own]
    bounds = _bounds(alert, origin, body)
    others = others_of(alert["stream"], origin, body)
    end_s = time.monotonic() + for_s
    finder = RecordFinder(stored, origin)
    wanted = RecordQuery(spec, list(own), alert["key"], *bounds, refused(alert["stream"], list(own)))
    found = finder.find(alert["stream"], wanted, _share(end_s, 1 + len(others)))
    fields, why = named_fields(alert["key"], body, spec), list[str]()
    of: dict[str, tuple[str, StreamSpec]] = {}
    for number, (stream, key) in enumerate(others.items()):
        theirs, left = origin.streams[stream], [each for each in ids if each not in found.rows]
        if not left:
            break
        wanted = RecordQuery(theirs, left, _called(alert["key"], key), *bounds, refused(stream, left))
        try:
            there = finder.find(stream, wanted, _share(end_s, len(others) - number))
        except UsageError as error:
            why.append(f"stream {stream} was not looked through: {error}")
            continue
        found.rows |= there.rows
        found.read, found.ended = found.read + there.read, found.ended and there.ended
        found.gone += there.gone
        of |= dict.fromkeys(there.rows, (stream, theirs))
        more = named_fields(key.values(), body, theirs) if there.rows else []
        fields += [name for name in more if name not in fields]
    missing = _missing(ids, found, for_s, looked=finder.looked)
    counts = {} if origin.lake is None else {"lake": finder.in_lake, "source": finder.in_source}
    place, notes = finder.place(), list(finder.notes())
    return Seen(spec, ids, found, fields, [*missing, *why], of, place, notes, counts)


def _share(end_s: float, among: int) -> float:
    """Until when one of so many may take."""
    now_s = time.monotonic()
    return now_s + max(0.0, end_s - now_s) / among


def _context(alert: Mapping[str, Any]) -> list[str]:
    """The records of another stream that a correlation held its record against."""
    return list((alert["evidence"].get("context") or {}).get("record_ids", ()))


def others_of(own: str, origin: RecordOrigin, body: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """The streams beside ``own`` that the rule rests on, each with what it calls the fields of the key.

    Those that it looks at come first; where it reads hits, these may rest on records of any stream.
    """
    from crossline.rules.rule_reader import read_rule

    rule = read_rule(dict(body))[0] if body is not None else None
    if rule is None:
        return {}
    side_inputs = {look.source: dict(look.keys) for look in rule.reading.side_inputs}
    known = {
        source: side_inputs.get(source, {})
        for source in (*side_inputs, *rule.reading.sources)
        if rule_of(source) is None
    }
    if any(rule_of(source) is not None for source in rule.reading.sources):
        known |= {stream: {} for stream in origin.streams if stream not in known}
    return {stream: keys for stream, keys in known.items() if stream != own and stream in origin.streams}


def _called(key: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(here, here): value for here, value in key.items()}


def _bounds(
    alert: Mapping[str, Any], origin: RecordOrigin, body: Mapping[str, Any] | None
) -> tuple[int | None, int | None]:
    """Within which event times its records lie, in epoch ms; None if that is not known."""
    at_ms = parse_instant_ms(alert["event_time"])
    if alert["window_start"] is None:
        return at_ms, at_ms
    if body is None or (body.get("time_mode") or origin.time_mode) != "event_time":
        return None, None
    spec = origin.streams.get(alert["stream"])
    if spec is not None and clock_of(body.get("timestamp_field"), spec) is not None:
        return None, None
    return parse_instant_ms(alert["window_start"]), max(at_ms, parse_instant_ms(alert["window_end"]))


def _missing(ids: Sequence[str], found: FoundRecords, for_s: float, *, looked: bool) -> Iterator[str]:
    missing = len([each for each in ids if each not in found.rows])
    if not missing:
        return
    if not looked:
        reach = "the lake does not have them"
    elif found.ended:
        reach = f"the source was read back as far as it goes, {found.read:,} records"
    else:
        reach = f"{found.read:,} records were read back in {for_s:g} s; --read-for takes longer"
    yield f"{missing:,} of {len(ids):,} records not found: {reach}"
    gone = list(dict.fromkeys(found.gone))
    yield from gone[:_LISTED_MAX]
    if len(gone) > _LISTED_MAX:
        yield f"and {len(gone) - _LISTED_MAX:,} more of the like"


def named_fields(key: Collection[str], body: Mapping[str, Any] | None, spec: StreamSpec) -> list[str]:
    """Fields of the key, and those that the rule and its sentence name, as far as records themselves have them."""
    words = set(_words(body or {})) - {spec.id, spec.event_time.field}
    own = spec.own_columns
    return [*(name for name in key if name in own), *(name for name in own if name in words and name not in key)]


def _words(value: Any, name: str = "") -> Iterator[str]:
    """The texts of a rule's body, as far as they may name fields."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            if inner not in _NO_FIELDS:
                yield from _words(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each, name)
    elif isinstance(value, str) and name == "description":
        yield from (part for _, part, _, _ in string.Formatter().parse(value) if part)
    elif isinstance(value, str):
        yield from (value, *_NAME.findall(value))


def _text(value: Any) -> str:
    value = _plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json_bytes(value).decode()


def _plain(value: Any) -> Any:
    """As JSON values: what a Parquet file has besides these (instants, decimals, bytes) as text."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
