"""Reads the records of batches again from their sources, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from crossline.basics.errors import SourceError
from crossline.basics.values import Records
from crossline.evaluate.bounds import Bounds
from crossline.generate.source import read_source
from crossline.io.chunks import STARTED, ChunkRef, GeneratorChunks
from crossline.io.files.listing import ChunkList
from crossline.io.kafka.unavailable_range import Place, Range, RangeUnavailableError
from crossline.io.outbox.batch_spool import CHUNKS
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.logs import get_logger
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.intake import ChunkIntake, Intake, KafkaIntake
from crossline.runtime.sources.messages import message_rows
from crossline.runtime.sources.references import chunk_rows
from crossline.runtime.work.task import Task
from crossline.settings.config import PipelineConfig, rule_defaults
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.sources import GeneratorSettings

if TYPE_CHECKING:
    from crossline.io.kafka.range_reader import KafkaRangeReader
    from crossline.io.kafka.retention import Retention

PATIENCE_S = 30.0  # without a record of a range
CHUNKS_AT_ONCE = 64
GENERATED_BYTES = 256  # of a generated record

log = get_logger(__name__)

# Records, and the number of the chunk that they stand in; None: they are of a topic.
ReadRecords = Iterator[tuple[Records, int | None]]


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that the source deleted before the lake had them: positions ``start`` to ``end`` (exclusive) of a log."""

    stream: str
    log: str
    start: int
    end: int


@dataclass(slots=True)
class SourceReader:
    """Reads ranges of a pipeline's sources.

    Attributes:
        config: The pipeline; its paths are absolute or relative to the working directory.
        folder: The folder of its checkpoint on this machine, which has the lists of chunks.
        gaps: What the sources had deleted already, of all that was read so far.
    """

    config: PipelineConfig
    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    gaps: list[Gap] = field(default_factory=list)
    _intakes: dict[str, Intake] = field(default_factory=dict)
    _lists: dict[str, ChunkList] = field(default_factory=dict)
    _topics: dict[str, KafkaRangeReader] = field(default_factory=dict)
    _snapshot: PlanSnapshot | None = None

    def read(self, stream: str, ranges: Mapping[str, Range], began_ms: int) -> ReadRecords:
        """The decoded records of ``ranges``, log by log, in the order of their positions.

        Args:
            stream: The stream of the source.
            ranges: By log, the first position and the one behind the last.
            began_ms: When the last of the batches was planned: a record from after it is no record.

        Raises:
            LakeUnavailableError: The source does not answer.
        """
        task = Task(began_ms=began_ms)
        for rows in self._rows(stream, ranges):
            for decoded, chunk in self._intake(stream).decode(self._plan(), rows, task, 0):
                if len(decoded.records):
                    yield decoded.records, chunk.sequence if CHUNKS in ranges else None

    def chunk_bytes(self, stream: str, start: int, end: int) -> int:
        """How many bytes the chunks from ``start`` to ``end`` (exclusive) have; of generated records, an estimate."""
        source = self.config.sources[stream]
        each = GENERATED_BYTES if isinstance(source, GeneratorSettings) else 1
        return each * sum(chunk.end - chunk.start for chunk in self._chunk_refs(stream, start, end))

    def stored_at(self, stream: str, log_name: str, position: int) -> tuple[int, int | None]:
        """The first offset that a topic-partition has, and the timestamp of the record at ``position`` (epoch ms).

        The timestamp is None where the topic has deleted the record.

        Raises:
            SourceError: The brokers do not answer.
        """
        place, topic = _place(log_name), self._topic(stream)
        first = topic.first_offset(place)
        if first > position:
            return first, None
        try:
            for _, messages in topic.read({place: (position, position + 1)}, PATIENCE_S):
                return first, int(messages[0].timestamp()[1])
        except RangeUnavailableError as error:
            raise SourceError(f"{log_name}, offset {position}: the record cannot be read: {error}") from error
        finally:
            topic.rest()
        return first, None  # a marker of a transaction, or deleted meanwhile

    def retention(self, stream: str, topic: str) -> Retention:
        """How long a topic of a stream keeps its records. Raises SourceError: the brokers do not say."""
        from crossline.io.kafka.client import librdkafka_settings  # noqa: PLC0415 - the client is an extra
        from crossline.io.kafka.retention import retention_of  # noqa: PLC0415 - as above

        source = self.config.sources[stream]
        assert isinstance(source, KafkaSourceSettings)  # noqa: S101 - others have chunks
        return retention_of(topic, librdkafka_settings(source.brokers, source.security, self.environment))

    def close(self) -> None:
        """Close the connections."""
        for reader in self._topics.values():
            reader.close()
        self._topics.clear()

    def _plan(self) -> PlanSnapshot:
        if self._snapshot is None:
            bounds = Bounds(self.config.engine.partition_lag)
            streams = dict(self.config.streams)
            self._snapshot = PlanSnapshot(RuleSet(), streams, rule_defaults(self.config), 1, bounds)
        return self._snapshot

    def _intake(self, stream: str) -> Intake:
        if stream not in self._intakes:
            source = self.config.sources[stream]
            if isinstance(source, KafkaSourceSettings):
                from crossline.runtime.sources.kafka import schemas_of  # noqa: PLC0415 - the client is an extra

                schemas = schemas_of(source, str(self.folder / "sources" / stream / "schemas"), self.environment)
                self._intakes[stream] = KafkaIntake(stream, schemas)
            elif isinstance(source, GeneratorSettings):
                self._intakes[stream] = ChunkIntake(stream, read_source(source.model_dump(exclude_none=True)))
            else:
                self._intakes[stream] = ChunkIntake(stream)
        return self._intakes[stream]

    def _rows(self, stream: str, ranges: Mapping[str, Range]) -> Iterator[pa.RecordBatch]:
        if CHUNKS in ranges:
            yield from self._chunks(stream, *ranges[CHUNKS])
        elif ranges:
            yield from self._messages(stream, {_place(log_name): each for log_name, each in ranges.items()})

    def _chunks(self, stream: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        if stream in self._lists:
            self._lists[stream].forget(start)  # what is read again after a failure begins here
        for first in range(start, end, CHUNKS_AT_ONCE):
            yield chunk_rows(self._chunk_refs(stream, first, min(end, first + CHUNKS_AT_ONCE)))

    def _chunk_refs(self, stream: str, start: int, end: int) -> Sequence[ChunkRef]:
        """The chunks of a source of files, from its list, or of generated records, from their numbers."""
        source = self.config.sources[stream]
        if not isinstance(source, GeneratorSettings):
            return self._listed(stream, start, end).chunks(start, end)
        folder = self.folder / "sources" / stream
        if not (folder / STARTED).exists():
            raise LakeUnavailableError(f"{folder}: found no {STARTED}, which says how many records a chunk has")
        return GeneratorChunks(stream, str(folder), source.records, 1, None).chunks(start, end)

    def _listed(self, stream: str, start: int, end: int) -> ChunkList:
        """The list of a stream's chunks, which has those from ``start`` to ``end`` (exclusive)."""
        listed = self._lists.get(stream)
        if listed is None or start < listed.first:
            listed = self._lists[stream] = ChunkList(str(self.folder / "sources" / stream))
        if len(listed) < end:
            listed.refresh()
        if len(listed) < end:
            raise LakeUnavailableError(f"{self.folder}: the list of chunks of stream {stream} ends before chunk {end}")
        return listed

    def _messages(self, stream: str, ranges: dict[Place, Range]) -> Iterator[pa.RecordBatch]:
        headers = bool(self.config.streams[stream].headers)
        read = dict.fromkeys(ranges, -1)
        try:
            for place, messages in self._topic(stream).read(ranges, PATIENCE_S):
                read[place] = int(messages[-1].offset() or 0)
                yield message_rows([(place, messages)], headers=headers)
        except RangeUnavailableError as error:
            left = {place: (max(start, read[place] + 1), end) for place, (start, end) in ranges.items()}
            there = {place: self._kept(stream, place, *each) for place, each in left.items() if each[0] < each[1]}
            if there == {place: each for place, each in left.items() if each[0] < each[1]}:
                raise LakeUnavailableError(f"stream {stream}: its records cannot be read now: {error}") from error
            yield from self._messages(stream, {place: each for place, each in there.items() if each[0] < each[1]})

    def _kept(self, stream: str, place: Place, start: int, end: int) -> Range:
        """The part of a range that the topic still has; what it has deleted is noted."""
        first = self._topic(stream).first_offset(place)
        if first <= start:
            return start, end
        gap = Gap(stream, f"{place[0]}-{place[1]}", start, min(first, end))
        self.gaps.append(gap)
        log.error(
            "the topic has deleted records that the lake does not have",
            stream=stream,
            log=gap.log,
            start=gap.start,
            end=gap.end,
        )
        return min(first, end), end

    def _topic(self, stream: str) -> KafkaRangeReader:
        if stream not in self._topics:
            from crossline.io.kafka.client import reading_settings  # noqa: PLC0415 - the client is an extra
            from crossline.io.kafka.range_reader import KafkaRangeReader  # noqa: PLC0415 - as above

            source = self.config.sources[stream]
            assert isinstance(source, KafkaSourceSettings)  # noqa: S101 - others have chunks
            self._topics[stream] = KafkaRangeReader(reading_settings(source, self.environment))
        return self._topics[stream]


def _place(log_name: str) -> Place:
    topic, _, partition = log_name.rpartition("-")
    return topic, int(partition)
