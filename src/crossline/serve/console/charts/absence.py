"""What did not come: the record that was waited after, and until when the other one would have been in time."""

from __future__ import annotations

from collections.abc import Iterator

from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console.charts.dots import dot
from crossline.serve.console.charts.frame import Plot
from crossline.serve.console.charts.scales import text_px
from crossline.serve.console.charts.svg import Element, drawing, line, text
from crossline.serve.console.charts.words import Wording, duration

HEIGHT, TOP, BOTTOM, LANE_Y, SIDE = 126, 10.0, 96.0, 56.0, 18.0
BEHIND = 5  # the plot goes on for a fifth of the wait behind its end


def absence_lane(shown: Timeline, width: int, words: Wording | None = None) -> Element:
    """Draw a timeline of the shape ``absence``; the hollow dot at the end is the record that did not come."""
    words = words or Wording()
    due_ms = shown.due_ms or shown.at_ms
    behind_ms = due_ms + (due_ms - shown.at_ms) // BEHIND
    plot = Plot.of(shown, words, left=SIDE, right=width - SIDE, top=TOP, bottom=BOTTOM, to_ms=behind_ms)
    lane = line("gr", (plot.x.start, LANE_Y), (plot.x.end, LANE_Y))
    parts = [*plot.window(), lane, *_due(plot, due_ms), *_records(plot), *plot.axis([shown.at_ms, due_ms])]
    return drawing(width, HEIGHT, words.conclusion(shown), parts)


def _due(plot: Plot, due_ms: int) -> Iterator[Element]:
    at, message = plot.x(due_ms), f"due within {duration(due_ms - plot.shown.at_ms)}"
    yield line("thr", (at, plot.top), (at, plot.bottom))
    yield text(at - 5, plot.top + 12, message, "thr-t", "end")
    yield dot("outside", at, LANE_Y, caption=f"what was due until {plot.words.clock(due_ms)} did not come")


def _records(plot: Plot) -> Iterator[Element]:
    for each in sorted(plot.shown.records, key=lambda record: record.mark == "crossing"):
        if plot.x.low <= each.event_ms <= plot.x.high:
            message = f"{each.record_id}, {plot.words.clock(each.event_ms)}: {each.note}"
            yield dot(each.mark, plot.x(each.event_ms), LANE_Y, each.record_id, message)
    at, message = plot.x(plot.shown.at_ms), f"{plot.shown.crossing}, {plot.words.clock(plot.shown.at_ms)}"
    if at + 8 + text_px(message) <= plot.x.end:
        yield text(at + 8, LANE_Y - 12, message, "lab")
