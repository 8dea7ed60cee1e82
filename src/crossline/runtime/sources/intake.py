"""From what Spark hands a task to decoded records.

Tasks get chunks of files or of generated traffic, Kafka rows, or the rows of any DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64, Records
from crossline.ingest.decode import Decoded, decode_lines, decode_table, decode_values
from crossline.ingest.enrich.headers import with_headers
from crossline.ingest.route.partitioner import Chunk, Piece
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.formats import decode_chunk
from crossline.runtime.sources.messages import stamps_ms, without_faults
from crossline.runtime.sources.positions import GENERATED_SHIFT
from crossline.runtime.sources.references import chunks_of
from crossline.runtime.work.task import Task

if TYPE_CHECKING:
    from crossline.generate.source import Generator
    from crossline.io.registry.schema_store import SchemaStore

TOGETHER_MAX = 4_096  # messages of several partitions that are decoded together
LOG_APPEND_TIME = 1  # as Spark numbers it
_STREAM, _LAST = b"stream", b"last"

DecodedRows = Iterator[tuple[Decoded, Chunk]]


class Intake(Protocol):
    """Decodes one Arrow batch of a task's input."""

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """Decoded records with the chunk they are; ``number`` counts the task's batches."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkIntake:
    """Rows of a chunk log (``chunk_rows``); the bytes are read here. ``generator``: they are made here."""

    stream: str
    generator: Generator | None = None

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:  # noqa: ARG002 - the protocol's
        """Decode the chunks that the rows name."""
        layout = snapshot.decoder(self.stream)
        form = snapshot.streams[self.stream].format
        for ref in chunks_of(batch):
            chunk = Chunk(self.stream, ref.sequence, ref.place)
            if self.generator is not None:
                lines = self.generator.lines(ref.start, ref.end - ref.start)
                yield decode_lines(layout, lines, ref.place, ref.start << GENERATED_SHIFT), chunk
            else:
                yield decode_chunk(form, layout, ref), chunk


@dataclass(frozen=True, slots=True)
class KafkaIntake:
    """Rows of Spark's Kafka source.

    The topic-partition is the log, the offset the place in it, the message's timestamp the ingest time. That a
    record was there is known from the broker's time, or from the instant of the batch. ``schemas``: of records of Avro;
    None where they are JSON. A message without a value (a tombstone) is no record, and neither is one with a header
    that is not of its type, or with a timestamp before 1970 where that counts: all are dead letters.
    """

    stream: str
    schemas: SchemaStore | None = None

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:  # noqa: ARG002 - the protocol's
        """Decode the values, partition by partition, or those of several together where they are few."""
        topics = batch.column("topic")
        topics = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
        codes = topics.indices.to_numpy().astype(np.int64) << 32 | batch.column("partition").to_numpy()
        found = np.unique(codes).tolist()
        names = [f"{topics.dictionary[code >> 32].as_py()}-{code & 0xFFFFFFFF}" for code in found]
        if len(found) > 1 and len(codes) <= TOGETHER_MAX and not snapshot.streams[self.stream].headers:
            yield self._together(snapshot, batch, task, names, np.searchsorted(found, codes))
            return
        for code, name in zip(found, names, strict=True):
            rows = np.flatnonzero(codes == code)
            mine = batch.take(pa.array(rows)) if len(rows) < len(codes) else batch
            first = mine.column("offset")[0].as_py()
            yield self._decoded(snapshot, mine, task, name), Chunk(name, int(first), name)

    def _decoded(self, snapshot: PlanSnapshot, mine: pa.RecordBatch, task: Task, name: str) -> Decoded:
        """The messages of one partition, or of several by numbers in the place of their offsets."""
        spec = snapshot.streams[self.stream]
        mine, columns, dead = without_faults(spec, self.stream, name, mine)
        offsets = mine.column("offset").to_numpy()
        known = ingest = stamps_ms(mine)
        if task.began_ms is not None:
            # Senders' clocks prove nothing: then it is the instant of the batch.
            by_broker = mine.column("timestampType").to_numpy() == LOG_APPEND_TIME
            known = np.where(by_broker, ingest, task.began_ms)
        layout, values = snapshot.decoder(self.stream), mine.column("value")
        if self.schemas is None or not mine.num_rows:
            decoded = decode_values(layout, values, name, offsets, ingest, known_ms=known)
        else:
            from crossline.ingest.avro.records import decode_avro  # noqa: PLC0415 - for streams of Avro alone
            from crossline.ingest.avro.wire import schema_ids  # noqa: PLC0415 - as above

            named = self.schemas.schemas(schema_ids(values), task.batch_id)
            decoded = decode_avro(layout, values, name, offsets, ingest, named, known_ms=known)
        if dead:
            dead = dead if layout.tokens is None else layout.tokens.letters(dead)
            decoded = replace(decoded, dead=sorted([*dead, *decoded.dead], key=lambda each: each.offset))
        if spec.headers:
            decoded = replace(decoded, records=with_headers(spec, decoded.records, columns, offsets))
        return decoded

    def _together(
        self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, names: list[str], of_row: I64
    ) -> tuple[Decoded, Chunk]:
        """The messages of several partitions, decoded as one: what each costs once is more than what few rows cost."""
        if (of_row[1:] < of_row[:-1]).any():
            order = np.argsort(of_row, kind="stable")
            batch, of_row = batch.take(pa.array(order)), of_row[order]
        offsets, at = batch.column("offset").to_numpy(), batch.schema.get_field_index("offset")
        numbered = batch.set_column(at, batch.schema.field(at), pa.array(np.arange(len(of_row))))
        decoded = self._decoded(snapshot, numbered, task, names[0])
        rows = decoded.records.offsets
        starts = np.searchsorted(of_row, np.arange(len(names)))
        ends = [*np.searchsorted(rows, starts[1:]).tolist(), len(rows)]
        pieces = tuple(
            Piece(name, int(first), name, end) for name, first, end in zip(names, offsets[starts], ends, strict=True)
        )
        dead = [
            replace(each, partition=names[of_row[each.offset]], offset=int(offsets[each.offset]))
            for each in decoded.dead
        ]
        records = replace(decoded.records, offsets=offsets[rows])
        return replace(decoded, records=records, dead=dead), Chunk(names[0], int(offsets[0]), names[0], pieces=pieces)

    def hurried(self) -> Self:
        """The same, for those who leave it to others to wait for a registry."""
        return self if self.schemas is None else replace(self, schemas=self.schemas.hurried())


@dataclass(frozen=True, slots=True)
class TaggedIntake:
    """Rows of several inputs: the number of the input in ``input``, its row in the struct ``rows<number>``."""

    intakes: tuple[Intake, ...]

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """Each row by the intake of its input."""
        inputs = batch.column("input").to_numpy()
        for each in np.unique(inputs).tolist():
            rows = batch.column(f"rows{each}").filter(pa.array(inputs == each))
            own = pa.RecordBatch.from_struct_array(rows)
            yield from self.intakes[each].decode(snapshot, own, task, number)


@dataclass(frozen=True, slots=True)
class StreamIntake:
    """Decodes batches of one stream each; the metadata of their schema names it."""

    intakes: Mapping[str, Intake]

    @staticmethod
    def marked(stream: str, rows: pa.RecordBatch, last: int = -1) -> pa.RecordBatch:
        """``rows`` as those of ``stream``, of which chunk number ``last`` is the last there is (-1: none of these)."""
        return rows.replace_schema_metadata({_STREAM: stream.encode(), _LAST: b"%d" % last})

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """By the intake of its stream."""
        marks = batch.schema.metadata or {}
        last = int(marks[_LAST])
        for decoded, chunk in self.intakes[marks[_STREAM].decode()].decode(snapshot, batch, task, number):
            yield decoded, replace(chunk, last=True) if chunk.sequence == last else chunk


@dataclass(frozen=True, slots=True)
class ShownIntake:
    """A wrapper of an intake that passes its records to an observer."""

    intake: Intake
    seen: Callable[[Records], None]

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """By the other one."""
        for decoded, chunk in self.intake.decode(snapshot, batch, task, number):
            self.seen(decoded.records)
            yield decoded, chunk


@dataclass(frozen=True, slots=True)
class TableIntake:
    """Rows of any DataFrame whose columns are the stream's fields: one log, in the order of batches and partitions."""

    stream: str

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:
        """Check the columns and flatten them."""
        sequence = (task.batch_id << 40) | (task.partition << 20) | number
        offsets = np.arange(batch.num_rows, dtype=np.int64)
        name = f"{self.stream}/{task.batch_id}/{task.partition}/{number}"
        table = pa.Table.from_batches([batch])
        yield decode_table(snapshot.decoder(self.stream), table, name, offsets), Chunk(self.stream, sequence, name)
