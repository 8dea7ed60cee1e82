"""The drawing that a timeline has, by its shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console.charts.absence import absence_lane
from crossline.serve.console.charts.correlation import ComparedValue, correlation_lane
from crossline.serve.console.charts.lanes import sequence_lanes
from crossline.serve.console.charts.svg import Element
from crossline.serve.console.charts.travel import travel_map
from crossline.serve.console.charts.window import window_timeline
from crossline.serve.console.charts.words import Wording

WIDTH_LEAST, WIDTH_MOST = 280, 1600


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A row of the table of records, which is the timeline as text.

    Attributes:
        record_id: The record.
        mark: What it is to the alert.
        time: When, to the millisecond.
        amount: With its decimals; "" if there is none.
        fields: What the rule names of it, as texts.
        note: What it is to the alert, in words.
    """

    record_id: str
    mark: str
    time: str
    amount: str
    fields: tuple[str, ...]
    note: str


def chart(
    shown: Timeline, width: int, words: Wording | None = None, context: ComparedValue | None = None
) -> Element | None:
    """Draw a timeline to a width in pixels; None for a rule that looks at the record alone.

    ``context``: of a correlation, what the record is held against.
    """
    width = min(max(width, WIDTH_LEAST), WIDTH_MOST)
    if shown.shape == "window":
        return window_timeline(shown, width, words)
    if shown.shape == "sequence":
        return sequence_lanes(shown, width, words)
    if shown.shape == "absence":
        return absence_lane(shown, width, words)
    if shown.shape == "travel":
        return travel_map(shown, width, words)
    if shown.shape == "correlation":
        return correlation_lane(shown, context or ComparedValue((), None), width, words)
    return None


def context_of(shown: Timeline, value: str, own: str | None) -> ComparedValue:
    """Of a correlation: the field ``value`` of the context's records, and the field ``own`` of the crossing one."""
    found = [(each.event_ms, each.fields.get(value)) for each in shown.records if each.lane == 1]
    values = sorted((at_ms, float(each)) for at_ms, each in found if isinstance(each, int | float))
    crossing = next((each for each in shown.records if each.mark == "crossing"), None)
    mine = crossing.fields.get(own) if crossing is not None and own is not None else None
    return ComparedValue(values, float(mine) if isinstance(mine, int | float) else None)


def record_rows(shown: Timeline, fields: Sequence[str], words: Wording | None = None) -> list[RecordRow]:
    """The records of a timeline as text, in the order of their event time."""
    words = words or Wording()
    return [
        RecordRow(
            record_id=each.record_id,
            mark=each.mark,
            time=words.clock(each.event_ms),
            amount="" if each.amount is None else words.money(each.amount),
            fields=tuple("" if each.fields.get(name) is None else str(each.fields[name]) for name in fields),
            note=each.note,
        )
        for each in sorted(shown.records, key=lambda record: record.event_ms)
    ]
