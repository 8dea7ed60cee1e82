"""The watermark of a lake: up to which batch all of its tables are whole.

A commit of Iceberg covers one table, so a table may be ahead of the others. A row of the table ``watermarks`` is
appended once all tables have a batch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.tables.data_files import bound_us
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.row_filters import all_of, equal
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, COMMITTED, DELIVERED, WATERMARKS


@dataclass(frozen=True, slots=True)
class Watermark:
    """All tables have the batches of ``checkpoint`` up to ``batch``.

    Attributes:
        checkpoint: The id of the checkpoint.
        batch: The last batch; -1: none.
        delivered_ms: When that batch was delivered.
        clocks: By stream, the highest event time of its records (ms), where ingest time is made from it.
        snapshots: By table, the snapshot that has the batch.
    """

    checkpoint: str
    batch: int
    delivered_ms: int = 0
    clocks: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Watermarks:
    """The table of watermarks."""

    table: LakeTable

    @staticmethod
    def of(lake: LakeAddress) -> Watermarks:
        """Of a lake; the table is made where it is missing."""
        return Watermarks(LakeTable.ensure(lake, WATERMARKS))

    def last(self, checkpoint: str) -> Watermark:
        """The last watermark of a checkpoint."""
        self.table.table.refresh()
        batch = self.table.last_batch(checkpoint)
        if batch < 0:
            return Watermark(checkpoint, -1)
        return self.at(checkpoint, batch) or Watermark(checkpoint, batch)

    def at(self, checkpoint: str, batch: int) -> Watermark | None:
        """The watermark at exactly this batch of a checkpoint; None: there is none."""
        self.table.table.refresh()
        mine = all_of([equal(CHECKPOINT, checkpoint), equal(BATCH, batch)])
        rows = self.table.table.scan(row_filter=mine).to_arrow()
        return _watermark(rows.to_pylist()[0]) if len(rows) else None

    def newest(self) -> Watermark | None:
        """The watermark that was written last, of whichever checkpoint; None: there is none.

        Only the file with the newest row is read: a day has one for each commit, until maintenance merges them.
        """
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

        self.table.table.refresh()
        own = self.table.table
        tasks = list(own.scan().plan_files())
        if not tasks:
            return None
        bounds = [bound_us(task.file.upper_bounds, own.schema().find_field(COMMITTED).field_id) for task in tasks]
        newest = [task for task, bound in zip(tasks, bounds, strict=True) if bound == max(bounds)]
        rows = ArrowScan(own.metadata, own.io, own.schema(), AlwaysTrue()).to_table(newest)
        rows = rows.sort_by([(COMMITTED, "ascending"), (BATCH, "ascending")])
        return _watermark(rows.slice(len(rows) - 1).to_pylist()[0])

    def append(self, mark: Watermark) -> None:
        """Append a watermark, unless one of this batch or of a later one is there."""
        now_us = time.time_ns() // 1_000
        row: dict[str, Any] = {
            COMMITTED: now_us,
            "snapshots": orjson.dumps(dict(mark.snapshots)).decode(),
            "clocks": orjson.dumps(dict(mark.clocks)).decode(),
            BATCH: mark.batch,
            CHECKPOINT: mark.checkpoint,
            DELIVERED: mark.delivered_ms * 1_000,
        }
        self.table.append(pa.Table.from_pylist([row], schema=WATERMARKS.schema), mark.checkpoint, mark.batch)


def _watermark(row: Mapping[str, Any]) -> Watermark:
    return Watermark(
        row[CHECKPOINT],
        row[BATCH],
        round(row[DELIVERED].timestamp() * 1_000),
        orjson.loads(row["clocks"]),
        orjson.loads(row["snapshots"]),
    )
