"""Versions of labels, from the table of a lake: a log, whose last version of a record counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import between, equal
from crossline.lake.tables.table_layouts import CHECKPOINT, INSTANT, LABELS, STRING
from crossline.lake.training.spill import Spill, bucket_count, buckets_of
from crossline.lake.writing.side_logs import made_ms_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

# ``version`` is a number that orders the versions of a record; ``is_fraud`` is null where the label was withdrawn;
# ``known_at`` is null where nobody says when it was known.
VERSIONS = pa.schema([("record_id", STRING), ("version", pa.int64()), ("is_fraud", pa.bool_()), ("known_at", INSTANT)])
_VERSION_BITS = 21  # of a version; when its file was made takes the others
BUCKET_ROWS = 1 << 20  # about how many labels are in memory at once
WITHDRAWN = "withdrawn"


class LabelSource(Protocol):
    """Where labels come from."""

    @property
    def dated(self) -> bool:
        """Whether every version says when it was known."""
        ...

    def count(self) -> int:
        """About how many versions there are."""
        ...

    def versions(self) -> Iterator[pa.RecordBatch]:
        """All versions, in any order, as ``VERSIONS``."""
        ...


@dataclass(frozen=True, slots=True)
class LakeLabels:
    """The labels of a lake's table on records of a stream.

    Attributes:
        reader: The lake.
        stream: The stream.
        as_of_ms: Versions that were given later do not count, epoch milliseconds.
    """

    reader: LakeReader
    stream: str
    as_of_ms: int
    dated: bool = field(default=True, init=False)

    def count(self) -> int:
        """See ``LabelSource``: those of all streams, which no file is read for."""
        return self.reader.count(LABELS.name)

    def versions(self) -> Iterator[pa.RecordBatch]:
        """See ``LabelSource``. Raises StateError where the lake has no table of labels."""
        where = [equal("stream", self.stream), between("at", None, self.as_of_ms)]
        names = ("record_id", "version", "is_fraud", "known_at", WITHDRAWN, CHECKPOINT)
        for rows in _batches(self.reader, where, names):
            withdrawn = pc.fill_null(rows.column(WITHDRAWN), False)
            verdict = pc.if_else(withdrawn, pa.scalar(None, pa.bool_()), rows.column("is_fraud"))
            columns = [rows.column("record_id"), _order(rows), verdict, rows.column("known_at")]
            yield pa.record_batch(
                [each.cast(kind.type) for each, kind in zip(columns, VERSIONS, strict=True)], schema=VERSIONS
            )


def last_labels(reader: LakeReader, as_of_ms: int, folder: Path, bucket_rows: int = BUCKET_ROWS) -> Iterator[pa.Table]:
    """The label in force of each record, as it was given by ``as_of_ms``: parts of the table ``labels``, in no order.

    Labels that were withdrawn are left out. About ``bucket_rows`` versions are in memory at once; the others are in
    files in ``folder`` meanwhile.

    Raises:
        StateError: The lake has no table of labels.
    """
    count = bucket_count(reader.count(LABELS.name), bucket_rows)
    spill = Spill(folder, "labels", LABELS.schema, count)
    try:
        for rows in _batches(reader, [between("at", None, as_of_ms)], tuple(LABELS.schema.names)):
            spill.add(rows, buckets_of(rows.column("record_id"), count))
        for _, found in spill.buckets():
            newest = _last(found)
            yield newest.filter(pc.invert(pc.fill_null(newest.column(WITHDRAWN), False)))
    finally:
        spill.close()


def _last(rows: pa.Table) -> pa.Table:
    """Of each record the row of the highest version, of the file that was made last."""
    numbered = rows.append_column("#", pa.array(range(len(rows)))).append_column("order", _order(rows))
    keys = ["stream", "record_id"]
    order = numbered.sort_by([*((each, "ascending") for each in keys), ("order", "ascending")])
    newest = order.group_by(keys, use_threads=False).aggregate([("#", "last")]).column("#_last")
    return rows.take(newest.combine_chunks())


def _order(rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """What orders versions: each file counts its own from 1 on, so when the file was made comes first."""
    logs = rows.column(CHECKPOINT)
    logs = logs.combine_chunks() if isinstance(logs, pa.ChunkedArray) else logs
    coded = logs.cast(pa.string()).fill_null("").dictionary_encode()
    made = pa.array([made_ms_of(each) << _VERSION_BITS for each in coded.dictionary.to_pylist()], pa.int64())
    version = rows.column("version")
    version = version.combine_chunks() if isinstance(version, pa.ChunkedArray) else version
    return pc.add(made.take(coded.indices), pc.min_element_wise(version, (1 << _VERSION_BITS) - 1))


def _batches(reader: LakeReader, where: list[BooleanExpression], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows of the table of labels with ``columns``; those that an older table lacks are null."""
    kinds = pa.schema([LABELS.schema.field(name) for name in columns])
    there = reader.columns(LABELS.name)
    for rows in reader.batches(LABELS.name, where, [name for name in columns if name in there]):
        found = [
            rows.column(each.name).cast(each.type) if each.name in there else pa.nulls(len(rows), each.type)
            for each in kinds
        ]
        yield pa.record_batch(found, schema=kinds)
