"""Where the past of a new rule is read from: the topic, the lake before it, or what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from crossline.runtime.changes.stored_past import PastStart, StoredSpan, past_start
from crossline.runtime.sources.intake import Intake
from crossline.runtime.sources.plan_source import SourcePlan, lacks
from crossline.runtime.state_log.offset_history import OffsetMark


class Lake:
    """A store that is whole up to ``last``."""

    def __init__(self, last: int | None) -> None:
        self.last = last

    def batch(self) -> int | None:
        return self.last

    def slices(self, span: StoredSpan) -> Iterator[Mapping[str, Sequence[pa.RecordBatch]]]:
        raise NotImplementedError

    def intake(self, stream: str) -> Intake:
        raise NotImplementedError


def topic(offset: int) -> dict[str, Any]:
    return {"t": {"0": offset}}


def mark(batch: int) -> OffsetMark:
    """Batch n ends at offset 10 (n + 1), and at ingest time 1000 (n + 1)."""
    return OffsetMark(batch, [topic(10 * batch + 10)], {"payments": 1_000 * batch + 1_000})


MARKS = [mark(0), mark(2), mark(4), mark(5)]


def start(first: int, lake: Lake | None, begun: OffsetMark | None = None, first_read: int | None = 0) -> PastStart:
    """The start where the topic begins at ``first``; the pipeline stands at batch 5."""
    source = SourcePlan("payments", None, None, None, None, first=lambda _: topic(first))  # type: ignore[arg-type]
    read = [None if first_read is None else topic(first_read)]
    return past_start([source], begun, read, MARKS[-1], lake, MARKS, 7)


def test_a_topic_that_has_all_is_read_alone() -> None:
    assert start(0, Lake(5)) == PastStart(None)
    assert start(10, Lake(5), begun=mark(0)) == PastStart(mark(0))
    assert start(10, Lake(5), begun=mark(2)) == PastStart(mark(2))


@pytest.mark.parametrize(
    ("last", "batch"),
    [(5, 5), (9, 5), (4, 4), (3, 2)],
    ids=["all", "more than the history has", "a mark", "between two marks"],
)
def test_the_lake_is_read_up_to_the_newest_mark_that_it_has(last: int, batch: int) -> None:
    expected = StoredSpan(batch, {"payments": topic(10 * batch + 10)}, 7, 1_000 * batch + 1_000)
    assert start(25, Lake(last)) == PastStart(mark(batch), expected)
    assert start(25, Lake(last), begun=mark(0)) == PastStart(mark(batch), expected)


@pytest.mark.parametrize("lake", [None, Lake(None), Lake(1)], ids=["none", "empty", "a gap before the topic"])
@pytest.mark.parametrize("begun", [None, mark(0)])
def test_what_is_nowhere_is_said(lake: Lake | None, begun: OffsetMark | None) -> None:
    found = start(25, lake, begun)
    assert (found.mark, found.stored) == (None, None)
    assert found.short.startswith("topics of payments have deleted records that are needed")
    assert [found.readable(each.offsets) for each in MARKS] == [False, True, True, True]


def test_a_pipeline_that_began_behind_the_first_record_misses_nothing() -> None:
    assert start(25, None, first_read=30) == PastStart(None)
    assert start(25, Lake(1), first_read=30) == PastStart(None)
    assert start(25, None, first_read=None) == PastStart(None), "where it began is not known"
    assert start(25, Lake(4), first_read=30).stored is not None, "the lake may have what an earlier checkpoint read"


@pytest.mark.parametrize(
    ("begun", "first", "expected"),
    [
        (None, {}, False),
        (None, {"t": {"0": 0}}, False),
        (None, {"t": {"0": 1}}, True),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 0}}, False),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 1}}, True),
        ({"t": {"0": 5}}, {"t": {"0": 6}}, True),
        ({"chunk": 3}, {"chunk": 3}, False),
        ({"chunk": 2}, {"chunk": 3}, True),
    ],
)
def test_lacks(begun: dict[str, Any] | None, first: dict[str, Any], expected: bool) -> None:
    assert lacks(begun, first) is expected
