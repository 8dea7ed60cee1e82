"""More than 60 records: columns of equal width, as high as records are many."""

from __future__ import annotations

from collections.abc import Iterator

from crossline.serve.console.charts.frame import Plot
from crossline.serve.console.charts.scales import Scale
from crossline.serve.console.charts.svg import Element, element

RECORDS_MAX = 60
COLUMN_PX, SPACE_PX = 8.9, 2.0
TOP, BOTTOM = 138.0, 200.0


def columns(plot: Plot) -> Iterator[Element]:
    """A column for each stretch of time; red from the one in which it crossed."""
    count = max(1, int((plot.x.end - plot.x.start) // COLUMN_PX))
    wide = (plot.x.end - plot.x.start) / count
    of: list[list[str]] = [[] for _ in range(count)]
    for each in plot.shown.records:
        if each.mark != "filtered" and each.event_ms >= plot.x.low:
            place = int((plot.x.clipped(each.event_ms) - plot.x.start) // wide)
            of[min(max(place, 0), count - 1)].append(each.record_id)
    y = Scale(0, max(1, *map(len, of)), BOTTOM, TOP)
    crossed = int((plot.x(plot.shown.at_ms) - plot.x.start) // wide)
    for number, ids in enumerate(of):
        if ids:
            top = y(len(ids))
            text = f"{len(ids)} {plot.words.noun}, {ids[0]}" + (f" to {ids[-1]}" if len(ids) > 1 else "")
            yield element(
                "rect",
                [element("title", [text])],
                class_="hit" if number >= crossed else "col",
                x=plot.x.start + number * wide + SPACE_PX / 2,
                y=top,
                width=wide - SPACE_PX,
                height=BOTTOM - top,
                data_record=ids[0],
            )
