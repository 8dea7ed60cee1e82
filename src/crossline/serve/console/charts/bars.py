"""A figure against its threshold: the threshold stands in the middle of every bar."""

from __future__ import annotations

from crossline.backtest.investigation.figure_bars import FigureBar
from crossline.serve.console.charts.svg import Element, element, px, rect
from crossline.serve.console.charts.words import Wording

HEIGHT, TOP, THICK = 16, 4.0, 8.0
ARROW_PX = 6.0


def figure_bar(bar: FigureBar, width: int, words: Wording | None = None) -> Element:
    """Draw one bar on a scale from 0 to twice the threshold; the words stand beside it, as text.

    Ink goes up to the threshold and red beyond it; beyond twice the threshold it ends in an arrow. Where less than the
    threshold is asked for, red is what lacks. A figure that has no such scale has the empty bar.
    """
    words = words or Wording()
    middle = width / 2
    parts = [rect("bg", 0, TOP, width, THICK)]
    if bar.share is not None:
        end = bar.share * width - (ARROW_PX if bar.beyond else 0)
        parts.append(rect("v1", 0, TOP, min(end, middle), THICK))
        if end > middle:
            parts.append(rect("over" if _is_red(bar) else "v1", middle, TOP, end - middle, THICK))
        elif bar.operator in {"<", "<="} and bar.met:
            parts.append(rect("over", end, TOP, middle - end, THICK))
        if bar.beyond:
            d = f"M{px(end)} {px(TOP - 1)}L{px(width)} {px(TOP + THICK / 2)}L{px(end)} {px(TOP + THICK + 1)}Z"
            parts.append(element("path", class_="over" if _is_red(bar) else "v1", d=d))
    parts.append(rect("tk", middle - 1, 0, 2, HEIGHT))
    name = f"{bar.name}: {words.value(bar.value, bar.unit)}, {words.held(bar)}"
    return element(
        "svg",
        parts,
        class_="ch mtr",
        width=width,
        height=HEIGHT,
        viewBox=f"0 0 {width} {HEIGHT}",
        role="img",
        aria_label=name,
    )


def _is_red(bar: FigureBar) -> bool:
    return bar.met and bar.operator in {">", ">="}
