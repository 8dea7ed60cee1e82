"""All charts on one page: ``python -m tests.unit.serve.console.charts.gallery FILE TOKENS.css``."""

from __future__ import annotations

import sys
from pathlib import Path

from crossline.backtest.investigation.timeline import Mark
from crossline.serve.console import charts
from crossline.serve.console.charts.bars import figure_bar
from crossline.serve.console.charts.chart import chart
from crossline.serve.console.charts.correlation import ComparedValue
from crossline.serve.console.charts.dots import LEGEND, key
from crossline.serve.console.charts.spark import histogram, sparkline
from crossline.serve.console.charts.words import Wording

from .samples import BARS, CORRELATION, MANY, PACIFIC, SENDERS, SEQUENCE, TRAVEL, at

WORDS = Wording(currency="EUR", minor=100, noun="payments")
RATES = ComparedValue(
    [(at(time), value) for time, value in (("14:08:30", 1.0818), ("14:09:30", 1.083), ("14:10:40", 1.0812),
     ("14:12:00", 1.0841), ("14:14:00", 1.0821), ("14:15:40", 1.0835), ("14:17:20", 1.0812), ("14:19:46.981", 1.0828))],
    1.1034,
)  # fmt: skip


def page(width: int, tokens: str) -> str:
    """Every chart, ``width`` pixels wide."""
    shown = {"Window": SENDERS, "Sequence": SEQUENCE, "Travel": TRAVEL, "Over the date line": PACIFIC, "Many": MANY}
    parts = [f"<h2>{name}</h2>{_html(chart(each, width, WORDS))}" for name, each in shown.items()]
    parts.append(f"<h2>Correlation</h2>{_html(chart(CORRELATION, width, WORDS, RATES))}")
    parts.append("<h2>Figures</h2>")
    for bar in BARS:
        caption = f"<b>{WORDS.value(bar.value, bar.unit)}</b> {WORDS.held(bar)}"
        parts.append(f"<p>{bar.name} {bar.what}: {caption}</p>{_html(figure_bar(bar, min(width, 480), WORDS))}")
    marks: list[Mark] = list(LEGEND)
    parts.append("<h2>Marks</h2>" + "".join(f"<p>{_html(key(each))} {LEGEND[each]}</p>" for each in marks))
    lines = ([3, 5, 4, 6, 5, 7, 6, 8], None), ([3, 4, 3, 5, 4, None, 4, 11], (2, 7))
    parts += [f"<p>{_html(sparkline(values, 112, band))}</p>" for values, band in lines]
    counts = [1, 0, 2, 3, 9, 14, 22, 30, 38, 41, 40, 33, 25, 18, 12, 6, 3, 2, 1, 1, 0, 0, 1]
    parts.append("<h2>Histogram</h2>" + _html(histogram(counts, 100, 2600, width, 4159.11, 3250, "usual 200 to 2,600")))
    css = (Path(charts.__file__).parents[1] / "assets" / "css" / "71-charts.css").read_text()
    more = "main{padding:16px;height:auto} svg.key{display:inline-block} h2{margin:18px 0 6px}"
    return f"<!doctype html><meta charset=utf-8><style>{tokens}{css}{more}</style><body><main>{''.join(parts)}</main>"


def _html(found: object) -> str:
    return found.__html__() if hasattr(found, "__html__") else ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(int(sys.argv[3]), Path(sys.argv[2]).read_text()))
