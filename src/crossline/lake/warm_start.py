"""The past of new rules from the lake, where topics have deleted it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.errors import StateError
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay_input import LakeInput, LakeIntake
from crossline.lake.state.tail import LakeTail, tail_of
from crossline.lake.tables.record_rows import runs_of
from crossline.lake.tables.row_filters import not_equal
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, LOG, POSITION, records_table
from crossline.runtime.changes.stored_past import StoredSpan
from crossline.runtime.snapshot.spark_log import query_id
from crossline.runtime.sources.intake import Intake
from crossline.settings.config import PipelineConfig

SLICE_ROWS = 100_000  # as many records as are read from a topic at once


@dataclass(frozen=True, slots=True)
class LakePast:
    """The lake of a pipeline as the store of its past; see ``StoredPast``.

    The catalog is opened for each use, and closed again: publications are rare.

    Attributes:
        config: The pipeline, whose paths are absolute or relative to the working directory.
        folder: The folder of its checkpoint on this machine.
        environment: Has the passwords that settings name.
        slice_rows: About how many records a slice has.
    """

    config: PipelineConfig
    folder: str
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    slice_rows: int = SLICE_ROWS

    def batch(self) -> int | None:
        """The last batch up to which all tables are whole; None: none yet."""
        with closing(LakeReader(open_lake(self.config, self.environment), self.config)) as reader:
            last = reader.whole_to(query_id(self.folder))
            return last if last >= 0 else None

    def intake(self, stream: str) -> Intake:
        """Decodes the rows of a stream."""
        return LakeIntake(stream)

    def slices(self, span: StoredSpan) -> Iterator[Mapping[str, Sequence[pa.RecordBatch]]]:
        """The records of a span, slice by slice; batches of one log or chunk each."""
        with closing(LakeReader(open_lake(self.config, self.environment), self.config)) as reader:
            inputs: dict[str, Sequence[str]] = dict.fromkeys(span.ends, ())
            within = (span.from_ms, span.to_ms + 1)
            given = LakeInput(reader, self.config.streams, inputs, *within, slice_rows=self.slice_rows)
            for stream, ends in span.ends.items():
                if _of_chunks(ends):
                    self._check_whole(reader, stream)
            edges = given.edges()
            slices = itertools.pairwise(edges)
            for part in itertools.chain.from_iterable(given.parts(*each) for each in slices):
                found: dict[str, Sequence[pa.RecordBatch]] = {}
                for stream in span.ends:
                    rows = given.rows(stream, part)
                    rows = None if rows is None else self._before(rows, span, stream)
                    if rows is not None and len(rows):
                        found[stream] = [
                            rows.slice(a, b - a).combine_chunks().to_batches()[0] for a, b in runs_of(rows)
                        ]
                if found:
                    yield found

    def behind(self, begins: Mapping[str, Mapping[str, Any]]) -> LakeTail | None:
        """What the lake has from offsets of topics on, up to all that was delivered; None: nothing, or with a gap."""
        checkpoint = query_id(self.folder)
        with closing(LakeReader(open_lake(self.config, self.environment), self.config)) as reader:
            mark = reader.whole_at(checkpoint)
        clocks = {} if mark is None else mark.clocks
        return tail_of(self.config, self.environment, begins, clocks, self.slice_rows)

    def _before(self, rows: pa.Table, span: StoredSpan, stream: str) -> pa.Table:
        """Those of ``rows`` that the checkpoint had read by the end of the span."""
        ends = span.ends[stream]
        if _of_chunks(ends):
            return rows.filter(pc.less_equal(rows.column(BATCH), span.batch))
        by_log = {f"{topic}-{number}": end for topic, each in ends.items() for number, end in each.items()}
        logs = pa.array(list(by_log), pa.string())
        end_of = pa.array(list(by_log.values()), pa.int64())
        mine = end_of.take(pc.index_in(rows.column(LOG).combine_chunks().cast(pa.string()), logs))
        return rows.filter(pc.fill_null(pc.less(rows.column(POSITION).combine_chunks(), mine), False))

    def _check_whole(self, reader: LakeReader, stream: str) -> None:
        """The chunks of a file are numbered by checkpoint; rows that another one wrote cannot be placed."""
        if reader.count(records_table(stream), [not_equal(CHECKPOINT, query_id(self.folder))]):
            raise StateError(
                f"stream {stream}: the lake has records that an earlier checkpoint read from its files; the past of a "
                "rule cannot be read from them"
            )


def _of_chunks(ends: Mapping[str, Any]) -> bool:
    """Whether offsets are numbers of chunks, and not of topics."""
    return "chunk" in ends
