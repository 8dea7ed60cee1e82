"""A small line without axis, and a histogram: what was usual, and where the last value stands."""

from __future__ import annotations

from collections.abc import Sequence

from crossline.serve.console.charts.scales import Scale, text_px, value_ticks
from crossline.serve.console.charts.svg import Element, drawing, element, line, px, rect, text
from crossline.serve.console.charts.words import number

SPARK_HEIGHT, SPARK_MARGIN = 20, 3.0
HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 140, 30.0, 112.0, 12.0, 24.0


def sparkline(
    values: Sequence[float | None], width: int = 112, band: tuple[float, float] | None = None, name: str = ""
) -> Element:
    """The values in their order, the last one marked; red only where it lies beyond the band.

    Args:
        values: One for each stretch of time; None is a gap.
        width: In pixels.
        band: From and to what was predicted.
        name: What a person would conclude.
    """
    known = [each for each in values if each is not None]
    edges = [*known, *(band or ())]
    y = Scale(min(edges, default=0), max(edges, default=1), SPARK_HEIGHT - SPARK_MARGIN, SPARK_MARGIN)
    x = Scale(0, max(1, len(values) - 1), SPARK_MARGIN, width - SPARK_MARGIN)
    parts = [rect("band", 0, y(band[1]), width, y(band[0]) - y(band[1]))] if band is not None else []
    path, pen = "", False
    for number_, value in enumerate(values):
        path += "" if value is None else f"{'L' if pen else 'M'}{px(x(number_))} {px(y(value))}"
        pen = value is not None
    parts.append(element("path", d=path))
    if values and values[-1] is not None:
        parts.append(element("circle", class_="e", cx=x(len(values) - 1), cy=y(values[-1]), r=2))
    bad = band is not None and bool(values) and values[-1] is not None and not band[0] <= values[-1] <= band[1]
    return element(
        "svg",
        parts,
        class_="ch spark bad" if bad else "ch spark",
        width=width,
        height=SPARK_HEIGHT,
        viewBox=f"0 0 {width} {SPARK_HEIGHT}",
        role="img",
        aria_label=name or f"{len(known)} values, the last one {number(known[-1]) if known else 'unknown'}",
    )


def histogram(
    counts: Sequence[int], low: float, high: float, width: int, value: float, threshold: float, name: str
) -> Element:
    """How often values lay where, the threshold dashed, and the value that crossed it.

    Args:
        counts: How many values lie in each of so many stretches of equal width from ``low`` to ``high``.
        low: Where the first stretch begins.
        high: Where the last one ends.
        width: In pixels.
        value: The value at the alert.
        threshold: What it is held against.
        name: What a person would conclude.
    """
    x = Scale(min(low, 0), max(high, value, threshold) * 1.08, LEFT, width - RIGHT)
    y = Scale(0, max(1, *counts), BOTTOM, TOP)
    step = (high - low) / len(counts)
    parts = [
        rect("col", x(low + step * place) + 0.5, y(count), x(step) - x(0) - 1, BOTTOM - y(count))
        for place, count in enumerate(counts)
        if count
    ]
    parts += [
        line("ax", (x.start, BOTTOM), (x.end, BOTTOM)),
        line("thr", (x(threshold), TOP - 14), (x(threshold), BOTTOM)),
    ]
    message = f"threshold {number(threshold)}"
    parts.append(text(x(threshold) - 5, TOP - 6, message, "thr-t", "end"))
    parts += [line("cross-l", (x(value), TOP + 8), (x(value), BOTTOM))]
    parts.append(element("circle", class_="hit", cx=x(value), cy=TOP + 8, r=4.5))
    half = text_px(number(value)) / 2
    parts.append(text(min(x(value), width - half), TOP - 6, number(value), "lab", "middle"))
    most = max(2, int((x.end - x.start) // 90))
    for tick in value_ticks(x.high, most):
        if tick <= x.high:
            parts.append(text(x(tick), BOTTOM + 16, number(tick), None, "middle"))
    return drawing(width, HEIGHT, name, parts)
