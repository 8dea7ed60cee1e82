"""Alerts a day and frauds found against the threshold, with the live one and the one that is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossline.serve.console.charts.scales import Scale, text_px, value_ticks
from crossline.serve.console.charts.svg import Element, drawing, element, line, text
from crossline.serve.console.charts.words import number

HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 220, 18.0, 186.0, 44.0, 44.0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A threshold. ``found``: the share of frauds that it finds, from 0 to 1; None without labels."""

    threshold: float
    per_day: float
    found: float | None


def curve_x(points: Sequence[CurvePoint], width: int) -> Scale:
    """Where a threshold stands."""
    return Scale(points[0].threshold, points[-1].threshold, LEFT, width - RIGHT)


def curve(points: Sequence[CurvePoint], at: float, live: float | None, width: int, name: str) -> Element:
    """The curves.

    Args:
        points: In the order of their thresholds, one at least.
        at: The threshold that is looked at.
        live: That of the live version; None: there is none.
        width: In pixels.
        name: What a person would conclude.
    """
    x, ticks = curve_x(points, width), value_ticks(max(each.per_day for each in points))
    y, share = Scale(0, max(ticks[-1], 1e-9), BOTTOM, TOP), Scale(0, 1, BOTTOM, TOP)
    parts: list[Element] = []
    for tick in ticks:
        parts += [
            line("gr", (LEFT, y(tick)), (width - RIGHT, y(tick))),
            text(LEFT - 6, y(tick) + 4, number(tick), None, "end"),
        ]
    found = [(x(each.threshold), share(each.found)) for each in points if each.found is not None]
    if found:
        parts += [text(width - RIGHT + 6, share(each / 100) + 4, f"{each} %") for each in (0, 50, 100)]
        parts.append(line("l2", *found))
    parts.append(line("l1", *((x(each.threshold), y(each.per_day)) for each in points)))
    if live is not None and x.low <= live <= x.high:
        message = f"live: {number(live)}"
        left = x(live) + 5 + text_px(message) > width - RIGHT
        parts.append(line("ax", (x(live), TOP - 8), (x(live), BOTTOM)))
        parts.append(text(x(live) + (-5 if left else 5), TOP + 4, message, None, "end" if left else "start"))
    place = x.clipped(at)
    moving = (line("edge", (0, TOP - 8), (0, BOTTOM)), element("circle", class_="knob", cx=0, cy=BOTTOM, r=6))
    parts.append(element("g", moving, class_="at", transform=f"translate({place:.1f} 0)"))
    last = -1e9
    for each in points:
        message = number(each.threshold)
        half = text_px(message) / 2 + 4
        if x(each.threshold) - half > last and x(each.threshold) + half < width:
            parts.append(text(x(each.threshold), BOTTOM + 22, message, None, "middle"))
            last = x(each.threshold) + half
    return drawing(width, HEIGHT, name, parts)
