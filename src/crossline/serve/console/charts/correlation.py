"""A record against a second stream: the context's values as a line, the record as a dot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console.charts.dots import dot
from crossline.serve.console.charts.frame import Plot
from crossline.serve.console.charts.scales import Scale, text_px
from crossline.serve.console.charts.svg import Element, drawing, element, line, px, text
from crossline.serve.console.charts.words import Wording, duration

HEIGHT, TOP, BOTTOM, RIGHT = 134, 24.0, 104.0, 18.0


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """What the record is held against.

    Attributes:
        values: Of the second stream, each with its event time in epoch ms, the oldest first.
        own: The record's own value; None if it has none.
    """

    values: Sequence[tuple[int, float]]
    own: float | None


def correlation_lane(shown: Timeline, context: ComparedValue, width: int, words: Wording | None = None) -> Element:
    """Draw a timeline of the shape ``correlation``; the age of the last context is always shown."""
    words = words or Wording()
    values = [value for _, value in context.values] + ([context.own] if context.own is not None else [])
    if not values:
        parts = [text(0, 20, "The second stream has nothing in the window")]
        return drawing(width, HEIGHT, words.conclusion(shown), parts)
    low, high = min(values), max(values)
    margin = (high - low) * 0.1 or abs(high) * 0.01 or 1.0
    y = Scale(low - margin, high + margin, BOTTOM - 8, TOP)
    ticks = _ticks(y)
    left = max(text_px(each) for _, each in ticks) + 14
    plot = Plot.of(shown, words, left=left, right=width - RIGHT, top=TOP - 8, bottom=BOTTOM)
    parts = [
        *plot.window(),
        *(each for value, caption in ticks for each in _tick(plot, y(value), caption)),
        *_line(plot, y, context),
        *_record(plot, y, context),
        *plot.axis([shown.at_ms]),
    ]
    return drawing(width, HEIGHT, words.conclusion(shown), parts)


def _ticks(y: Scale) -> list[tuple[float, str]]:
    """Three values with as many decimals as distinguish them."""
    span = y.high - y.low
    values = [y.low + span * part for part in (0.1, 0.5, 0.9)]
    places = next((each for each in range(7) if len({f"{value:,.{each}f}" for value in values}) == len(values)), 6)
    return [(value, f"{value:,.{places}f}") for value in values]


def _tick(plot: Plot, at: float, message: str) -> Iterator[Element]:
    yield line("gr", (plot.x.start, at), (plot.x.end, at))
    yield text(plot.x.start - 8, at + 4, message, None, "end")


def _line(plot: Plot, y: Scale, context: ComparedValue) -> Iterator[Element]:
    values = [(at_ms, value) for at_ms, value in context.values if at_ms <= plot.x.high]
    if not values:
        return
    path = f"M{px(plot.x.clipped(values[0][0]))} {px(y(values[0][1]))}"
    for at_ms, value in values[1:]:
        path += f"H{px(plot.x.clipped(at_ms))}V{px(y(value))}"
    yield element("path", class_="step", d=f"{path}H{px(plot.x.end)}")
    earlier = [each for each in values if each[0] <= plot.shown.at_ms]
    if earlier:
        at_ms, value = earlier[-1]
        x = plot.x.clipped(at_ms)
        yield dot("counted", x, y(value))
        yield plot.beside(x, f"last before it, {value:g}, {duration(plot.shown.at_ms - at_ms)} old", y(value) - 10, "")


def _record(plot: Plot, y: Scale, context: ComparedValue) -> Iterator[Element]:
    yield from plot.crossing()
    if context.own is not None:
        x, at = plot.x(plot.shown.at_ms), y(context.own)
        yield dot("crossing", x, at, plot.shown.crossing)
        yield plot.beside(x, f"this record, {context.own:g}", at + 4)
