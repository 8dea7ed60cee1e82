"""The records of a stream as input of every plan that reads it: its own plan, and those of stream joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from crossline.basics.conditions.lists import Lists
from crossline.basics.values import Records
from crossline.ingest.route.clocks import on_clock
from crossline.ingest.route.partitioner import Chunk, Part, route
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import columns_from, reads
from crossline.plan.costs import UNMEASURED, Meter
from crossline.plan.stream_join import StreamJoin, wide_records

# Arrays beside those of rows: the number of its cause in the part's meta (-1: the row's own record), and whether it
# is retracted.
CAUSE, GONE = "cause", "gone"


def entering(
    plans: Iterable[StreamPlan],
    records: Records,
    chunk: Chunk,
    shards: int,
    lists: Lists,
    meter: Meter = UNMEASURED,
) -> Iterator[tuple[int, Part]]:
    """The parts of ``records``, which are of a stream, each with the depth that it is judged at.

    ``meter`` is moved on by what it takes.
    """
    for plan in plans:
        if plan.stream == records.stream:
            yield from ((plan.depth, part) for part in route(plan, records, chunk, shards, lists, meter=meter))
        elif plan.clock is not None and plan.base == records.stream:
            own = on_clock(records, plan.stream, plan.spec, plan.clock)
            yield from ((plan.depth, part) for part in route(plan, own, chunk, shards, lists, meter=meter))
        elif plan.met is not None and records.stream in plan.met.specs:
            yield from (
                (plan.depth, part) for part in stream_join(plan, plan.met, records, chunk, shards, lists, meter=meter)
            )


def stream_join(
    plan: StreamPlan,
    met: StreamJoin,
    records: Records,
    chunk: Chunk,
    shards: int,
    lists: Lists,
    *,
    scores: bool = False,
    meter: Meter = UNMEASURED,
) -> Iterator[Part]:
    """The parts of ``records`` of a source that meet in ``plan``; ``scores``: those that risk scores are of."""
    source, names = records.stream, reads(plan)
    if plan.corrected and not records.marks:
        records = marked(records)
    for name, columns in columns_from(plan, source).items():
        if (name in met.scores) != scores:
            continue
        rows = wide_records(plan.stream, name, plan.spec, columns, names, records)
        pieces = tuple(replace(piece, log=met.log(name, source, piece.log)) for piece in chunk.pieces)
        own = replace(chunk, log=met.log(name, source, chunk.log), pieces=pieces)
        yield from route(plan, rows, own, shards, lists, base=met.bases[source], meter=meter)


def marked(records: Records) -> Records:
    """``records`` of a stream, which are never retracted, among hits that may be."""
    return replace(records, marks={CAUSE: np.full(len(records), -1), GONE: np.zeros(len(records), np.int64)})
