"""The records of an alert, as ``crossline alerts show`` prints them: read again from the sources of its pipeline."""

from __future__ import annotations

import json
import os
import re
import string
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from crossline.cli.screen import Listing
from crossline.connectors.sqlite import StoredAlert
from crossline.core.alerts.alertjson import json_bytes
from crossline.core.basics.errors import UsageError
from crossline.core.basics.times import format_instant, parse_instant_ms
from crossline.core.texts.plaintext import printable

if TYPE_CHECKING:
    from crossline.core.settings.config import PipelineConfig as Config
    from crossline.core.streams.schema import StreamSpec
    from crossline.replay.records import Back, Found, Row

# What of a rule's body names no field, though it may look so.
_NO_FIELDS = {"rule_id", "rule_type", "owner", "tags", "status", "severity", "action", "source_topic", "sink_topic"}
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_CUT_BYTES = 16 << 20
_TOLD_MAX = 3
_GENERATED_CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records came from: the sources of a pipeline, or (``inputs``, by stream) files. ``name``: the pipeline's.

    ``time_mode``: the clock of rules that do not say which.
    """

    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    config: Config | None = None
    time_mode: str = "event_time"


@dataclass(frozen=True, slots=True)
class Seen:
    """The records of one alert: those that were found, and why others were not.

    ``ids``: of all of them, oldest first. ``fields``: those that the key, the rule and its sentence name.
    """

    spec: StreamSpec
    ids: list[str]
    found: Found
    fields: list[str]
    why: list[str]

    def as_json(self) -> dict[str, Any]:
        """Each record whole, and why some are missing."""
        records = [self._one(record_id) for record_id in self.ids]
        return {"records": records, **({"records_missing": self.why} if self.why else {})}

    def _one(self, record_id: str) -> dict[str, Any]:
        row = self.found.rows.get(record_id)
        if row is None:
            return {"record_id": record_id, "found": False}
        place = {"partition": row.partition, "offset": row.offset}
        at = {"event_time": self._time(row) or None}
        return {"record_id": record_id, "found": True, **at, **place, "fields": _plain(row.fields)}

    def _time(self, row: Row) -> str:
        from crossline.replay.records import event_ms

        at_ms = event_ms(self.spec.event_time, row.fields)
        return "" if at_ms is None else format_instant(at_ms)

    def as_table(self) -> RenderableType:
        """A line each, in the order of the evidence."""
        from crossline.core.conditions.holds import lookup

        table = Listing("", "record", "time", *self.fields, long=self.fields)
        for number, record_id in enumerate(self.ids, 1):
            row = self.found.rows.get(record_id)
            if row is None:
                table.add(str(number), record_id, Text("not found", "dim"), *[""] * len(self.fields))
            else:
                values = [_text(lookup(row.fields, name)) for name in self.fields]
                table.add(str(number), record_id, self._time(row), *values)
        return Group(table, *(Text(printable(sentence)) for sentence in self.why))


def seen(
    stored: StoredAlert,
    origin: Origin,
    body: Mapping[str, Any] | None,
    refused: Collection[tuple[str, int]],
    for_s: float,
) -> Seen:
    """Look for the records of an alert for at most ``for_s`` seconds.

    ``body``: of its rule, where that is known. ``refused``: see ``Wanted``. Raises CrosslineError where its stream is
    none of the origin's, or its source cannot be asked.
    """
    from crossline.replay.records import Wanted

    alert = stored.alert
    spec = origin.streams.get(alert["stream"])
    if spec is None:
        raise UsageError(f"the alert is of stream {alert['stream']}; found the streams {', '.join(origin.streams)}")
    ids = list(alert["evidence"]["record_ids"])
    if alert["record_id"] not in ids:  # its window is of the records before it
        ids.append(alert["record_id"])
    since_ms, until_ms = _bounds(alert, origin, body)
    wanted = Wanted(spec, ids, alert["key"], since_ms, until_ms, refused)
    until_s = time.monotonic() + for_s
    with ExitStack() as stack:
        found = wanted.find(_back(stored, origin, spec, until_s, stack), until_s)
    fields = _named(alert["key"], body, spec)
    return Seen(spec, ids, found, fields, list(_missing(ids, found, for_s)))


def _bounds(alert: Mapping[str, Any], origin: Origin, body: Mapping[str, Any] | None) -> tuple[int | None, int | None]:
    """Within which event times its records lie, in epoch ms; None where that is not known."""
    at_ms = parse_instant_ms(alert["event_time"])
    if alert["window_start"] is None:
        return at_ms, at_ms
    if ((body or {}).get("time_mode") or origin.time_mode) != "event_time" or body is None:
        return None, None
    return parse_instant_ms(alert["window_start"]), max(at_ms, parse_instant_ms(alert["window_end"]))


def _missing(ids: Sequence[str], found: Found, for_s: float) -> Iterator[str]:
    missing = len([each for each in ids if each not in found.rows])
    if not missing:
        return
    if found.ended:
        reach = f"the source was read back as far as it goes, {found.read:,} records"
    else:
        reach = f"{found.read:,} records were read back in {for_s:g} s; --read-for takes longer"
    yield f"{missing:,} of {len(ids):,} records not found: {reach}"
    gone = list(dict.fromkeys(found.gone))
    yield from gone[:_TOLD_MAX]
    if len(gone) > _TOLD_MAX:
        yield f"and {len(gone) - _TOLD_MAX:,} more of the like"


def _back(stored: StoredAlert, origin: Origin, spec: StreamSpec, until_s: float, stack: ExitStack) -> Back:
    stream = stored.alert["stream"]
    if stream in origin.inputs:
        return _files(spec, stream, origin.inputs[stream], stored.position, stack)
    source = origin.config.sources.get(stream) if origin.config is not None else None
    if origin.config is None or source is None:
        raise UsageError(f"no files are named for stream {stream}: add --input {stream}=GLOB")
    folder = f"{origin.config.engine.checkpoint}/sources/{stream}"
    if source.kind == "files":
        return _files(spec, stream, [source.path], stored.position, stack, folder)
    if source.kind == "kafka":
        return _topics(source, stored, until_s)
    return _generated(stream, source, stored, Path(folder))


def _files(
    spec: StreamSpec,
    stream: str,
    patterns: Sequence[str],
    position: tuple[str, int] | None,
    stack: ExitStack,
    folder: str | None = None,
) -> Back:
    """Files by the list of chunks in ``folder``; where there is none, as they are now."""
    from crossline.connectors.files.listing import ChunkList
    from crossline.connectors.files.log import FileChunks
    from crossline.engine.source.files import FileInput, patterns_of
    from crossline.replay.back import FilesBack

    kind = FilesBack
    if spec.format == "parquet":
        from crossline.replay.back_tables import TablesBack

        kind = TablesBack
    known = ChunkList(folder or "")
    if folder is not None:
        known.refresh()
    if len(known):
        return kind(spec, known.chunks(0, len(known)), position)
    aside = stack.enter_context(tempfile.TemporaryDirectory(prefix="crossline-show-"))
    files = FileInput(stream, tuple(patterns), spec.format)
    log = FileChunks(patterns_of(files, there=True), aside, _CUT_BYTES, whole_files=files.whole, unended="counts")
    return kind(spec, log.chunks(0, log.poll(time.time_ns() // 1_000_000)), position)


def _topics(source: Any, stored: StoredAlert, until_s: float) -> Back:
    from crossline.connectors.kafka.back import KafkaBack
    from crossline.connectors.kafka.client import librdkafka_settings
    from crossline.replay.back import KafkaRows

    settings = librdkafka_settings(source.brokers, source.security, os.environ)
    topics = [name.strip() for name in source.topic.split(",") if name.strip()]
    came_ms = parse_instant_ms(stored.alert["ingest_time"])
    return KafkaRows(KafkaBack(settings, topics, stored.position, came_ms + 1, until_s))


def _generated(stream: str, source: Any, stored: StoredAlert, folder: Path) -> Back:
    from crossline.generate.source import read_source
    from crossline.replay.back import GeneratedBack

    generator = read_source(source.model_dump(exclude_none=True))
    started = folder / "started.json"
    chunk = int(json.loads(started.read_text())["chunk_records"]) if started.exists() else _GENERATED_CHUNK
    if stored.position is None and generator.records is None:
        raise UsageError("the store does not say which of the generator's records it was, and they have no end")
    return GeneratedBack(stream, generator, chunk, stored.position, generator.records or 0)


def _named(key: Collection[str], body: Mapping[str, Any] | None, spec: StreamSpec) -> list[str]:
    """Fields of the key, and those that the rule names, its sentence included, in the order of the stream."""
    words = set(_words(body or {})) - {spec.id, spec.event_time.field}
    return [*key, *(name for name in spec.columns if name in words and name not in key)]


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
