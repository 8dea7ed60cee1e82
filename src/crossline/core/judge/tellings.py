"""What programs tell of records: figures of a key at each of them, as columns, with where each record stands.

Nothing is made for a record by itself, so that tellings may be of all records: of millions, figures of several keys are
brought together at the record by ``offsets`` within ``chunks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crossline.core.alerts.hits import JudgedRows
from crossline.core.basics.values import F64, I32, I64
from crossline.core.plan.spaces import Cursor, TellingLine, WindowPlan
from crossline.core.windows.batch import Bools, ToldFigure, ToldRows


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A figure at n records: ``values`` (int64[n] or float64[n]; 0 where it is not ``defined``, bool[n]).

    ``up``: what an integer lacks beyond 64 bits: the value is values + up * 2^64 (int64[n]); None: nothing.
    ``counts``: int64[n], the records in its window. ``starts_ms``, ``ends_ms``: int64[n], from when to when that is.
    """

    values: I64 | F64
    up: I64 | None
    defined: Bools
    counts: I64
    starts_ms: I64
    ends_ms: I64

    def arrow(self) -> pa.Array:
        """int64 or float64, null where it is undefined, and where it is an integer that 64 bits do not hold."""
        missing = ~self.defined if self.up is None else ~self.defined | (self.up != 0)
        return pa.array(self.values, mask=missing)


@dataclass(frozen=True, slots=True)
class ToldRecords:
    """What ``version`` of the program ``rule_id`` tells of the n records of a batch that it judges in a shard.

    They are in the order in which they were judged. ``stream``: that of its plan. ``ids``: string array (of hits, see
    ``id_of_hit``). Record i stands at ``offsets[i]`` of ``chunks[chunk[i]]``, each (log, sequence, partition);
    ``place_ms``: as in ``Place``. ``reached_ms``: the highest ingest time that its log had reached. ``facts``: the
    fields that were asked for, null where missing. All of int64[n] but ``chunk`` (int32[n]).
    """

    rule_id: str
    version: int
    stream: str
    ids: pa.Array
    event_ms: I64
    ingest_ms: I64
    reached_ms: I64
    place_ms: I64
    chunk: I32
    offsets: I64
    chunks: Sequence[tuple[str, int, str]]
    figures: Mapping[str, FigureColumn]
    facts: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.event_ms)


def tellings_of(judged: JudgedRows, told: Sequence[ToldRows]) -> Iterator[ToldRecords]:
    """What was ``told`` of the rows of a layer, by each of its tellings."""
    kernel: Any = judged.layer_plan.kernel
    for line, said in zip(kernel.tellings if told else (), told, strict=True):
        yield _telling(judged, kernel, line, said)


def _telling(judged: JudgedRows, plan: WindowPlan, line: TellingLine, said: ToldRows) -> ToldRecords:
    batch, rows, mine = judged.batch, judged.rows, said.rows
    ingest_ms, clock_ms = batch.ingest_ms[mine], batch.clock_ms[mine]
    windows = {name: plan.cursors[plan.groups[count].cursor] for name, _, count in line.figures}
    every = len(mine) == len(batch)
    return ToldRecords(
        rule_id=line.rule_id,
        version=line.version,
        stream=judged.plan.stream,
        ids=judged.ids(mine),
        event_ms=rows["event_ms"][mine],
        ingest_ms=ingest_ms,
        reached_ms=rows["reached"][mine] if "reached" in rows else ingest_ms,
        place_ms=rows["place_ms"][mine],
        chunk=rows["chunk"][mine],
        offsets=rows["offsets"][mine],
        chunks=judged.chunks,
        figures={name: _column(windows[name], clock_ms, figure) for name, figure in said.figures.items()},
        facts={name: batch.facts[name] if every else batch.facts[name].take(pa.array(mine)) for name in line.facts},
    )


def _column(window: Cursor, clock_ms: I64, figure: ToldFigure) -> FigureColumn:
    starts_ms, ends_ms = window.spans_ms(clock_ms)
    return FigureColumn(figure.values, figure.up, figure.defined, figure.counts, starts_ms, ends_ms)
