"""What the lake has of topics from some offsets on: a restored pipeline judges it where the topics have it not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay_input import LakeInput
from crossline.lake.tables.record_rows import runs_of
from crossline.lake.tables.row_filters import between, equal
from crossline.lake.tables.table_layouts import DEAD_LETTERS, DELIVERED, LOG, MISSING, POSITION, records_table
from crossline.runtime.changes.stored_past import StoredSlice
from crossline.settings.config import PipelineConfig

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

SLICE_ROWS = 100_000
Offsets = Mapping[str, Any]  # by topic and partition, or by log


@dataclass(frozen=True, slots=True)
class LakeTail:
    """The records behind some offsets; see ``StoredTail``.

    Attributes:
        config: The pipeline.
        environment: Has the passwords that settings name.
        ends: By stream, the offsets up to which the lake has all.
        known_ms: Only records of batches that were delivered by then, in epoch milliseconds.
        from_ms: No log had reached an earlier instant of the ingest clock; None: that is not known.
        slice_rows: About how many records a slice has.
    """

    config: PipelineConfig
    environment: Mapping[str, str]
    ends: Mapping[str, Offsets]
    known_ms: int
    from_ms: int | None
    slice_rows: int = SLICE_ROWS

    def slices(self, begins: Mapping[str, Offsets], ends: Mapping[str, Offsets]) -> Iterator[StoredSlice]:
        """See ``StoredTail``."""
        reached = {stream: dict(by_log(begins.get(stream, {}))) for stream in ends}
        last = {stream: by_log(each) for stream, each in ends.items()}
        if reached == last:
            return
        with closing(LakeReader(open_lake(self.config, self.environment), self.config)) as reader:
            where = {stream: [_from(by_log(begins.get(stream, {})))] for stream in ends}
            given = LakeInput(
                reader,
                self.config.streams,
                dict.fromkeys(ends, ()),
                self.from_ms,
                known_ms=self.known_ms,
                slice_rows=self.slice_rows,
                where=where,
            )
            waiting: StoredSlice | None = None
            parts = (part for start, end in itertools.pairwise(given.edges()) for part in given.parts(start, end))
            for part in parts:
                found = {}
                for stream in ends:
                    rows = given.rows(stream, part)
                    rows = None if rows is None else _before(rows, last[stream])
                    if rows is not None and len(rows):
                        found[stream] = [
                            rows.slice(a, b - a).combine_chunks().to_batches()[0] for a, b in runs_of(rows)
                        ]
                        _advance(reached[stream], _positions(rows))
                if found:
                    if waiting is not None:
                        yield waiting
                    waiting = StoredSlice(found, {stream: by_topic(each) for stream, each in reached.items()})
            yield StoredSlice({} if waiting is None else waiting.rows, ends)  # behind dead letters too


def tail_of(
    config: PipelineConfig,
    environment: Mapping[str, str],
    begins: Mapping[str, Offsets],
    clocks: Mapping[str, int],
    slice_rows: int,
) -> LakeTail | None:
    """What the lake has from the offsets ``begins`` of topics on; None: nothing, or with a gap.

    Args:
        config: The pipeline.
        environment: Has the passwords that settings name.
        begins: By stream, offsets by topic and partition.
        clocks: By log, the highest ingest time up to these offsets, as far as it is known.
        slice_rows: About how many records a slice has.
    """
    with closing(LakeReader(open_lake(config, environment), config)) as reader:
        known_ms = reader.known_ms()
        if known_ms is None:
            return None
        ends: dict[str, Offsets] = {}
        for stream, offsets in begins.items():
            logs = by_log(offsets)
            if _has_gap(reader, stream, logs):
                return None
            reached = dict(logs)
            within = [_from(logs), between(DELIVERED, None, known_ms)]
            if reader.has(records_table(stream)):
                for rows in reader.batches(records_table(stream), within, (LOG, POSITION)):
                    _advance(reached, _positions(pa.Table.from_batches([rows])))
            letters = [equal("stream", stream), between(DELIVERED, None, known_ms)]
            if reader.has(DEAD_LETTERS.name):
                _advance(reached, _positions(reader.rows(DEAD_LETTERS.name, letters, ("log", "position")), "log"))
            ends[stream] = by_topic(reached)
        known = [clocks.get(log) for offsets in begins.values() for log in by_log(offsets)]
        from_ms = None if None in known or not known else min(ms for ms in known if ms is not None)
        return LakeTail(config, environment, ends, known_ms, from_ms, slice_rows)


def by_log(offsets: Offsets) -> dict[str, int]:
    """Offsets by topic and partition, by the name of the log.

    >>> by_log({"card-payments": {"0": 7, "1": 9}})
    {'card-payments-0': 7, 'card-payments-1': 9}
    """
    return {f"{topic}-{number}": offset for topic, each in offsets.items() for number, offset in each.items()}


def by_topic(offsets: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The inverse of ``by_log``.

    >>> by_topic({"card-payments-0": 7, "card-payments-1": 9})
    {'card-payments': {'0': 7, '1': 9}}
    """
    found: dict[str, dict[str, int]] = {}
    for log, offset in offsets.items():
        topic, _, number = log.rpartition("-")
        found.setdefault(topic, {})[number] = offset
    return found


def _has_gap(reader: LakeReader, stream: str, logs: Mapping[str, int]) -> bool:
    """Whether a topic had deleted records behind these offsets before the lake had them."""
    if not reader.has(MISSING.name):
        return False
    rows = reader.rows(MISSING.name, [equal("stream", stream)], ("log", "end")).to_pylist()
    return any(row["end"] > logs.get(row["log"], 0) for row in rows)


def _from(logs: Mapping[str, int]) -> BooleanExpression:
    """Rows at or behind the offsets of their logs; of a log that is none of them, all."""
    from pyiceberg.expressions import (  # noqa: PLC0415 - an extra
        AlwaysTrue,
        And,
        GreaterThanOrEqual,
        NotEqualTo,
        Or,
    )

    found: Any = AlwaysTrue()
    for log, offset in logs.items():
        found = And(found, Or(NotEqualTo(LOG, log), GreaterThanOrEqual(POSITION, offset)))  # type: ignore[call-arg,arg-type]
    return found  # type: ignore[no-any-return]


def _before(rows: pa.Table, ends: Mapping[str, int]) -> pa.Table:
    """Those of ``rows`` before the ends of their logs."""
    logs, offsets = pa.array(list(ends), pa.string()), pa.array(list(ends.values()), pa.int64())
    mine = offsets.take(pc.index_in(rows.column(LOG).combine_chunks().cast(pa.string()), logs))
    return rows.filter(pc.fill_null(pc.less(rows.column(POSITION).combine_chunks(), mine), False))


def _positions(rows: pa.Table, log: str = LOG) -> dict[str, int]:
    """By log, the offset behind the last of ``rows``."""
    position = POSITION if log == LOG else "position"
    found = rows.group_by([log]).aggregate([(position, "max")]).to_pylist()
    return {row[log]: row[f"{position}_max"] + 1 for row in found if row[f"{position}_max"] is not None}


def _advance(reached: dict[str, int], ends: Mapping[str, int]) -> None:
    for log, end in ends.items():
        reached[log] = max(reached.get(log, 0), end)
