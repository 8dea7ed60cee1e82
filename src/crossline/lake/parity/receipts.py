"""The receipts of the API in a lake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson

from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import equal, one_of
from crossline.lake.tables.table_layouts import RECEIPTS

_ASKED = 200  # records in one question

Records = Collection[tuple[str, str]]  # stream and record id


def by_stream(records: Records) -> Iterator[tuple[str, list[str]]]:
    """The ids of records, a bounded number of one stream at once."""
    ordered = sorted(records)
    for start in range(0, len(ordered), _ASKED):
        part = ordered[start : start + _ASKED]
        for stream in sorted({stream for stream, _ in part}):
            yield stream, [each for name, each in part if name == stream]


def receipts_on(
    reader: LakeReader, records: Records
) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    """The stream, the id, the answer and the receipt's own part of each receipt on ``records``.

    Receipts without an answer are left out: retention has removed it.
    """
    for stream, ids in by_stream(records):
        where = [equal("stream", stream), one_of("record_id", ids)]
        rows = reader.rows(RECEIPTS.name, where, ("record_id", "answer", "body"))
        for row in rows.to_pylist():
            if row["answer"] is not None:
                yield stream, row["record_id"], orjson.loads(row["answer"]), orjson.loads(row["body"])
