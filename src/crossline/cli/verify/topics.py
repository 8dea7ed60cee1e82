"""The records of a topic as a file: in the order of the broker's clock, each with the time at which it came."""

from __future__ import annotations

import heapq
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import format_instant
from crossline.settings.kafka import KafkaSourceSettings

if TYPE_CHECKING:
    from crossline.io.kafka.forward_reader import ForwardTopicReader, PartitionSpan

# What a line has besides its record's own fields, as its first two.
CAME, STANDS = "crossline_came_ms", "crossline_stands"
_HEAD = struct.Struct("<qqI")
_TELL_EACH_S = 2.0


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """``spec``: the stream as its records stand in the file ``path``, with the ingest time that the broker gave."""

    path: Path
    spec: StreamSpec
    notes: tuple[str, ...]


def read_topic(
    stream: str,
    source: KafkaSourceSettings,
    spec: StreamSpec,
    folder: Path,
    answered_ms: int | None,
    until_ms: int | None,
    note_progress: Callable[[str], None],
) -> ReadTopic:
    """The topics of ``source``, from their first offsets, as a file of ``folder``.

    ``note_progress``: gets a line of progress. ``until_ms``: read no record that came then or later. Raises UsageError
    if the records cannot be written as lines, or the topic has none before ``answered_ms`` any more; SourceError as
    ``ForwardTopicReader``.
    """
    if source.registry is not None or spec.format != "json" or spec.headers:
        raise UsageError(
            f"the source of {stream} is topic {source.topic}, of Avro or with fields of headers: expected --input "
            f"{stream}=FILE with its records as JSON, one a line"
        )
    from crossline.io.kafka.client import reading_settings
    from crossline.io.kafka.forward_reader import ForwardTopicReader

    topics = [topic.strip() for topic in source.topic.split(",") if topic.strip()]
    with closing(ForwardTopicReader(reading_settings(source, os.environ), topics, until_ms)) as topic:
        _Copying(topic, folder / stream, note_progress).copy()
        spans = topic.spans
    first_ms, path = None, folder / f"{stream}.jsonl"
    with path.open("wb") as file:
        own = spec.ingest_time is not None
        for at_ms, place, value in _merged(spans, folder / stream):
            first_ms = at_ms if first_ms is None else min(first_ms, at_ms)
            file.write(_line(value, at_ms, place) + b"\n")
    gone = [span for span in spans if span.begin]
    if gone and answered_ms is not None and (first_ms is None or first_ms > answered_ms):
        begins = "is empty" if first_ms is None else f"begins at {format_instant(first_ms)}"
        raise UsageError(
            f"topic {source.topic} no longer has the records: it {begins}, and the answer is of "
            f"{format_instant(answered_ms)}; name a copy of them with --input {stream}=FILE"
        )
    notes = tuple(
        f"{span.name} begins at offset {span.begin:,}: figures that reach back before it can differ" for span in gone
    )
    return ReadTopic(path, spec if own else _with_time(spec), notes)


def _with_time(spec: StreamSpec) -> StreamSpec:
    body = spec.model_dump(mode="json", by_alias=True)
    given = {"ingest_time": {"field": CAME, "unit": "ms"}, "fields": {**body["fields"], CAME: "integer"}}
    return StreamSpec.model_validate({**body, **given})


def _line(value: bytes, at_ms: int, place: str) -> bytes:
    """The record on one line, as it is written; what is no JSON object stays so, and is refused when it is judged."""
    text = value.replace(b"\r", b" ").replace(b"\n", b" ").strip()
    if not text.startswith(b"{"):
        return text or b"null"
    rest = text[1:].lstrip()
    head = f'{{"{CAME}":{at_ms},"{STANDS}":"{place}"'.encode()
    return head + (b"" if rest.startswith(b"}") else b",") + rest


@dataclass(slots=True)
class _Copying:
    """The partitions of a topic, each to a file of ``folder``."""

    topic: ForwardTopicReader
    folder: Path
    note_progress: Callable[[str], None]
    done: int = 0
    logged_s: float = 0.0

    def copy(self) -> None:
        self.folder.mkdir()
        self.logged_s = time.monotonic()
        whole = sum(span.end - span.begin for span in self.topic.spans)
        for span in self.topic.spans:
            with (self.folder / span.name).open("wb") as file:
                for each in self.topic.records(span):
                    file.write(_HEAD.pack(each.at_ms, each.offset, len(each.value)) + each.value)
                    self._note(span, each.offset, whole)
            self.done += span.end - span.begin

    def _note(self, span: PartitionSpan, offset: int, whole: int) -> None:
        if time.monotonic() - self.logged_s >= _TELL_EACH_S:
            self.logged_s = time.monotonic()
            self.note_progress(f"reading topic {span.topic}: {self.done + offset - span.begin:,} of {whole:,} records")


def _merged(spans: list[PartitionSpan], folder: Path) -> Iterator[tuple[int, str, bytes]]:
    """Records of all partitions in the order in which they came; those of one stay in their own order."""
    yield from heapq.merge(*(_kept(folder / span.name) for span in spans), key=lambda each: each[0])


def _kept(path: Path) -> Iterator[tuple[int, str, bytes]]:
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            at_ms, offset, size = _HEAD.unpack(head)
            yield at_ms, f"{path.name} {offset}", file.read(size)
