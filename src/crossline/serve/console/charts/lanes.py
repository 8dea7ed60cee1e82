"""One lane a step of a sequence, in the order of the steps."""

from __future__ import annotations

from collections.abc import Iterator

from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console.charts.dots import dot
from crossline.serve.console.charts.frame import NARROW_PX, Plot
from crossline.serve.console.charts.scales import text_px
from crossline.serve.console.charts.svg import Element, drawing, line, text
from crossline.serve.console.charts.words import Wording, duration

TOP, LANE_PX, FIRST_PX, UNDER_PX = 10.0, 48.0, 34.0, 30.0
NAME_PX, RIGHT = 118.0, 18.0


def sequence_lanes(shown: Timeline, width: int, words: Wording | None = None) -> Element:
    """Draw a timeline of the shape ``sequence``; on narrow screens names stand above their lanes."""
    words = words or Wording()
    narrow = width < NARROW_PX
    bottom = TOP + FIRST_PX + LANE_PX * (len(shown.lanes) - 1) + UNDER_PX
    left = 12.0 if narrow else max(NAME_PX, *(text_px(each.name) + 16 for each in shown.lanes))
    due = shown.due_ms or 0
    plot = Plot.of(shown, words, left=left, right=width - RIGHT, top=TOP, bottom=bottom, to_ms=due)
    exact = [shown.at_ms] if narrow else []
    parts = [*plot.window(), *_lanes(plot, narrow=narrow), *_dots(plot), *_due(plot), *plot.axis(exact)]
    return drawing(width, int(bottom + 22), words.conclusion(shown), parts)


def lane_y(number: int) -> float:
    """Where a lane stands."""
    return TOP + FIRST_PX + LANE_PX * number


def _lanes(plot: Plot, *, narrow: bool) -> Iterator[Element]:
    for number, lane in enumerate(plot.shown.lanes):
        y, message = lane_y(number), f"{lane.found} of {lane.wanted}"
        yield line("gr", (plot.x.start, y), (plot.x.end, y))
        if narrow:
            yield text(plot.x.start, y - 10, f"{lane.name}, {message}", "lab")
        else:
            yield text(0, y - 2, lane.name, "lab")
            yield text(0, y + 12, message)


def _dots(plot: Plot) -> Iterator[Element]:
    yield from plot.crossing()
    for each in plot.shown.records:
        if each.lane >= 0:
            x, y = plot.x.clipped(each.event_ms), lane_y(each.lane)
            yield dot(each.mark, x, y, each.record_id, f"{each.record_id}, {plot.words.clock(each.event_ms)}")
    last = next((each for each in plot.shown.records if each.mark == "crossing"), None)
    if last is None:
        return
    amount = "" if last.amount is None else f", {plot.words.money(last.amount, code=True)}"
    message, at = f"{plot.words.clock(last.event_ms)}{amount}", plot.x(last.event_ms)
    y = lane_y(max(0, last.lane)) - 6
    if at + 9 + text_px(message) <= plot.x.end:
        yield text(at + 9, y, message, "lab")
    else:
        yield plot.beside(at, message, y)


def _due(plot: Plot) -> Iterator[Element]:
    """Until when the last record could have come."""
    shown = plot.shown
    if shown.due_ms is None or shown.window_start_ms is None:
        return
    at, message = plot.x(shown.due_ms), f"within {duration(shown.due_ms - shown.window_start_ms)}"
    yield line("thr", (at, plot.top), (at, plot.bottom))
    yield text(at - 5, plot.top + 10, message, "thr-t", "end")
