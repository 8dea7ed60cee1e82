"""The window timeline: above, the figure as steps against its threshold; below, the records as dots on stems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crossline.backtest.investigation.timeline import RecordMark, Timeline
from crossline.serve.console.charts.columns import RECORDS_MAX, columns
from crossline.serve.console.charts.dots import dot
from crossline.serve.console.charts.frame import NARROW_PX, Plot
from crossline.serve.console.charts.scales import Scale, free, text_px, value_ticks
from crossline.serve.console.charts.svg import Element, drawing, element, line, px, text
from crossline.serve.console.charts.words import Wording

HEIGHT = 222
TOP, FIGURES_TOP, FIGURES_BOTTOM, STEMS_TOP, BOTTOM = 16.0, 36.0, 106.0, 138.0, 200.0
RIGHT, LABEL_PX = 16.0, 11.0
AFTER_MAX = 1.4  # what comes after may rise so far above the larger of threshold and crossing


def window_timeline(shown: Timeline, width: int, words: Wording | None = None) -> Element:
    """Draw a timeline of the shape ``window``.

    Args:
        shown: What is drawn.
        width: In pixels, 320 to 1200; all of it is used.
        words: How values are shown.
    """
    words = words or Wording()
    high = _high(shown)
    left = 8 + max(text_px(words.value(each, shown.unit)) for each in _ticks(shown, high)) + 8
    plot = Plot.of(shown, words, left=left, right=width - RIGHT, top=TOP, bottom=BOTTOM)
    y = Scale(0, high, FIGURES_BOTTOM, FIGURES_TOP)
    stems = columns(plot) if len(shown.records) > RECORDS_MAX else _stems(plot)
    parts = [
        *plot.window(),
        *_labels(plot, width),
        *_value_axis(plot, y, high),
        *_steps(plot, y),
        *plot.crossing(),
        *_hit(plot, y),
        *stems,
        *plot.axis([each for each in (shown.at_ms, shown.window_start_ms) if each is not None]),
    ]
    return drawing(width, HEIGHT, words.conclusion(shown), parts)


def _at(shown: Timeline) -> float | None:
    return next((each.value for each in shown.steps if each.record_id == shown.crossing), None)


def _high(shown: Timeline) -> float:
    """The top of the figures' lane: above threshold and crossing; what comes after may be cut off."""
    upto = [each.value or 0 for each in shown.steps if each.at_ms <= shown.at_ms]
    least = max([shown.threshold or 0, _at(shown) or 0, *upto, 1e-9])
    return max(least, min(max([each.value or 0 for each in shown.steps], default=0), least * AFTER_MAX))


def _ticks(shown: Timeline, high: float) -> list[float]:
    """0 and half of the threshold, which itself has its own colour; without a threshold round values."""
    threshold = shown.threshold
    if threshold is None or threshold <= 0:
        return [each for each in value_ticks(high, 2) if each <= high]
    whole = float(threshold).is_integer()
    half = threshold // 2 if whole else threshold / 2
    return [0, half] if half >= threshold / 3 else [0]


def _value_axis(plot: Plot, y: Scale, high: float) -> Iterator[Element]:
    threshold = plot.shown.threshold
    for value in _ticks(plot.shown, high):
        if threshold is None or abs(y(value) - y.clipped(threshold)) >= LABEL_PX:
            yield text(plot.x.start - 8, y(value) + 4, plot.words.value(value, plot.shown.unit), None, "end")
        if value == 0:
            yield line("gr", (plot.x.start, y(0)), (plot.x.end, y(0)))
    if threshold is not None and 0 <= threshold <= high:
        yield line("thr", (plot.x.start, y(threshold)), (plot.x.end, y(threshold)))
        caption = plot.words.value(threshold, plot.shown.unit)
        yield text(plot.x.start - 8, y(threshold) + 4, caption, "thr-t", "end")


def _labels(plot: Plot, width: int) -> Iterator[Element]:
    """What the lanes are, and the window."""
    shown, crossing = plot.shown, f"crosses at {plot.words.clock(plot.shown.at_ms)}"
    at = plot.x(shown.at_ms)
    yield plot.beside(at, crossing, 10)
    occupied = [(at - 4, at + 4)]
    name = shown.figure.replace("_", " ")
    figure_end = plot.x.start + text_px(name)
    if width >= NARROW_PX and free(occupied, plot.x.start, figure_end):
        yield text(plot.x.start, 30, name)
        occupied.append((plot.x.start, figure_end))
        if shown.window_start_ms is not None:
            low = max(plot.x.clipped(shown.window_start_ms) + 6, figure_end + 12)
            for message in (f"{plot.window_text()}, looking back from the record", plot.window_text()):
                if free(occupied, low, low + text_px(message)) and low + text_px(message) < at:
                    yield text(low, 30, message)
                    break
    if shown.money is not None and any(each.amount is not None for each in shown.records):
        message = f"{plot.words.amounts(shown.money)} each"
        opens = plot.x.start if shown.window_start_ms is None else plot.x.clipped(shown.window_start_ms)
        struck = plot.x.start - 2 < opens < plot.x.start + text_px(message) + 2
        yield text(opens + 6 if struck else plot.x.start, 128, message)


def _steps(plot: Plot, y: Scale) -> Iterator[Element]:
    """Up to the crossing a line, after it a dotted one."""
    before = [each for each in plot.shown.steps if each.at_ms <= plot.shown.at_ms and each.value is not None]
    after = [each for each in plot.shown.steps if each.at_ms > plot.shown.at_ms and each.value is not None]
    if before:
        start = plot.x.start if before[0].at_ms >= plot.x.low else plot.x.clipped(before[0].at_ms)
        path = f"M{px(start)} {px(y.clipped(0))}"
        for each in before:
            path += f"H{px(plot.x.clipped(each.at_ms))}V{px(y.clipped(each.value or 0))}"
        yield element("path", class_="step", d=f"{path}H{px(plot.x(plot.shown.at_ms))}")
    if after:
        last = next((each.value for each in reversed(before) if each.value is not None), 0)
        path = f"M{px(plot.x(plot.shown.at_ms))} {px(y.clipped(last or 0))}"
        for each in after:
            path += f"H{px(plot.x.clipped(each.at_ms))}V{px(y.clipped(each.value or 0))}"
        yield element("path", class_="after", d=f"{path}H{px(plot.x.end)}")


def _hit(plot: Plot, y: Scale) -> Iterator[Element]:
    value = _at(plot.shown)
    if value is not None:
        at = plot.x(plot.shown.at_ms), y.clipped(value)
        yield dot("crossing", *at, plot.shown.crossing, plot.words.value(value, plot.shown.unit))


def _stems(plot: Plot) -> Iterator[Element]:
    """Each record on a stem; its height is its amount, and half of the lane where there is none.

    One from long before the window is in the table alone: at the edge it would stand at another time than its own.
    """
    records = [each for each in plot.shown.records if each.event_ms >= plot.x.low]
    amounts = [abs(each.amount) for each in records if each.amount is not None]
    height = Scale(0, max(amounts, default=1) or 1, BOTTOM - 6, STEMS_TOP + 12)
    labels: list[tuple[float, float, float]] = []
    tops: dict[str, tuple[float, float]] = {}
    for each in sorted(records, key=lambda record: record.mark == "crossing"):
        x = plot.x.clipped(each.event_ms)
        y = (BOTTOM + STEMS_TOP) / 2 if each.amount is None else height(abs(each.amount))
        tops[each.record_id] = x, y
        yield line("cross-l" if each.mark == "crossing" else "stem", (x, y), (x, BOTTOM))
        yield dot(each.mark, x, y, each.record_id, _title(plot, each))
    for each in sorted(records, key=lambda record: (record.mark != "crossing", record.mark == "after")):
        if each.amount is not None and each.mark != "after":
            yield from _amount(plot, each, tops, labels)


def _title(plot: Plot, record: RecordMark) -> str:
    amount = "" if record.amount is None else f", {plot.words.money(record.amount, code=True)}"
    return f"{record.record_id}, {plot.words.clock(record.event_ms)}{amount}: {record.note}"


def _amount(
    plot: Plot,
    record: RecordMark,
    tops: Mapping[str, tuple[float, float]],
    occupied: list[tuple[float, float, float]],
) -> Iterator[Element]:
    """An amount above its dot, or beside it; left out where another stands, or a dot or its stem would strike it."""
    caption, (x, y) = plot.words.money(record.amount or 0), tops[record.record_id]
    wide = text_px(caption)
    places = [
        (x - wide / 2, y - 9, "middle", x),
        (x - 9 - wide, y + 4, "end", x - 9),
        (x + 9, y + 4, "start", x + 9),
    ]
    edges = [plot.x(each) for each in (plot.shown.window_start_ms, plot.shown.at_ms) if each is not None]
    dots = [top for each, top in tops.items() if each != record.record_id]
    for low, at, anchor, where in places if record.mark != "crossing" else [places[1], places[0]]:
        met_by = [other for other, top in dots if anchor != "middle" or top < at + 8]
        others = met_by if record.mark == "crossing" else [*edges, *met_by]
        crowded = any(low - 4 < other < low + wide + 4 for other in others)
        met = any(low < end and low + wide > start and abs(at - height) < 12 for start, end, height in occupied)
        if not crowded and not met and low >= plot.x.start and low + wide <= plot.x.end + 14:
            occupied.append((low - 3, low + wide + 3, at))
            yield text(where, at, caption, None, anchor)
            return
