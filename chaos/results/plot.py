"""Lag and latency over time as an SVG of two panels, with the faults as bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 1_200, 260, 70, 20, 40, 60, 150
FONT = 'font-family="sans-serif" font-size="11"'
COLOURS = ("#c0392b", "#2980b9", "#27ae60", "#8e44ad", "#d35400", "#16a085", "#7f8c8d")


@dataclass(frozen=True, slots=True)
class Band:
    """A fault: from when, until it was taken back, until it was got over (seconds), and its name."""

    from_s: float
    until_s: float
    over_s: float
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A series of (seconds, value), as a line or as points."""

    title: str
    points: Sequence[tuple[float, float]]
    line: bool


def svg(title: str, panels: Sequence[Panel], bands: Sequence[Band], end_s: float) -> str:
    """The whole picture."""
    height = TOP + len(panels) * (PANEL + GAP) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-family="sans-serif" font-size="15">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * (PANEL + GAP), bands, max(1.0, end_s))
    return "\n".join([*parts, *_names(bands, TOP + len(panels) * (PANEL + GAP), max(1.0, end_s)), "</svg>\n"])


def _panel(panel: Panel, top: float, bands: Sequence[Band], end_s: float) -> list[str]:
    """Values on a logarithmic scale: both span from nothing to a restart's backlog."""
    high = max(10.0, *(value for _, value in panel.points)) if panel.points else 10.0
    decades = math.ceil(math.log10(high))
    bottom = top + PANEL

    def y(value: float) -> float:
        return bottom - math.log10(max(1.0, value)) / decades * PANEL

    parts = [f'<text x="{LEFT}" y="{top - 6}" {FONT}>{escape(panel.title)}</text>']
    for number, band in enumerate(bands):
        colour = COLOURS[number % len(COLOURS)]
        for from_s, until_s, depth in ((band.from_s, band.until_s, 0.35), (band.until_s, band.over_s, 0.12)):
            x, width = _x(from_s, end_s), max(1.0, _x(until_s, end_s) - _x(from_s, end_s))
            parts.append(
                f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{PANEL}" fill="{colour}" '
                f'opacity="{depth}"><title>{escape(band.name)}</title></rect>'
            )
    for decade in range(decades + 1):
        at = y(10.0**decade)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" {FONT} text-anchor="end">{10**decade:,}</text>')
    step_s = _step(end_s)
    for tick in range(int(end_s // step_s) + 1):
        x = _x(tick * step_s, end_s)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 15}" {FONT} text-anchor="middle">{tick * step_s:g} s</text>')
    places = [(_x(at_s, end_s), y(value)) for at_s, value in panel.points]
    if panel.line:
        drawn = " ".join(f"{x:.1f},{at:.1f}" for x, at in places)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="#222" stroke-width="1.2"/>')
    else:
        seen = dict.fromkeys((round(x, 1), round(at)) for x, at in places)  # many alerts are one dot
        parts += [f'<circle cx="{x}" cy="{at}" r="1.4" fill="#222" opacity="0.6"/>' for x, at in seen]
    return parts


def _names(bands: Sequence[Band], top: float, end_s: float) -> list[str]:
    return [
        f'<text transform="translate({_x(band.from_s, end_s) + 4:.1f},{top}) rotate(60)" font-family="sans-serif" '
        f'font-size="9" fill="{COLOURS[number % len(COLOURS)]}">{escape(band.name)}</text>'
        for number, band in enumerate(bands)
    ]


def _x(at_s: float, end_s: float) -> float:
    return LEFT + at_s / end_s * (WIDTH - LEFT - RIGHT)


def _step(end_s: float) -> float:
    return next((step for step in (5, 10, 30, 60, 120, 300, 600, 1_800) if end_s / step <= 16), 3_600)
