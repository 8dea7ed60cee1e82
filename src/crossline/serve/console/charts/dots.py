"""The marks of records: each has a shape of its own, so that colour is never the only sign."""

from __future__ import annotations

from crossline.backtest.investigation.timeline import Mark
from crossline.serve.console.charts.svg import Element, element, px

RADIUS, HIT_RADIUS = 4.0, 4.5
LEGEND: dict[Mark, str] = {
    "counted": "counted",
    "before": "counted before",
    "outside": "outside",
    "filtered": "filtered out",
    "crossing": "crosses",
    "after": "after",
}


def dot(mark: Mark, x: float, y: float, record_id: str = "", caption: str = "") -> Element:
    """A record's mark at a place.

    Args:
        mark: What the record is to the alert.
        x: Its middle, in pixels.
        y: Its middle, in pixels.
        record_id: By which a script finds its row.
        caption: Its title, shown as one points at it.
    """
    title = [element("title", [caption])] if caption else []
    return element("g", [*title, *_shape(mark, x, y)], class_="dot", data_record=record_id or None)


def _shape(mark: Mark, x: float, y: float) -> list[Element]:
    if mark == "crossing":
        return [element("circle", class_="hit", cx=x, cy=y, r=HIT_RADIUS)]
    if mark == "counted":
        return [element("circle", class_="in-w", cx=x, cy=y, r=RADIUS)]
    if mark == "filtered":
        return [element("path", class_="skip", d=f"M{px(x - 3.5)} {px(y - 3.5)}l7 7m0-7l-7 7")]
    hollow = element("circle", class_="hol", cx=x, cy=y, r=RADIUS)
    if mark == "before":
        return [hollow, element("path", class_="in-w", d=f"M{px(x)} {px(y - 4)}a4 4 0 0 1 0 8z")]
    return [hollow]


def key(mark: Mark) -> Element:
    """The mark alone, 12 px, for a legend or the first column of a table."""
    return element(
        "svg",
        _shape(mark, 6, 6),
        class_="ch key",
        width=12,
        height=12,
        viewBox="0 0 12 12",
        aria_hidden="true",
    )
