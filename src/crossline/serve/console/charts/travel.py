"""Two places on a plain graticule, the great circle between them, and the speed against its threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from crossline.backtest.investigation.timeline import Location, Timeline, Travel
from crossline.serve.console.charts.dots import dot
from crossline.serve.console.charts.frame import NARROW_PX
from crossline.serve.console.charts.scales import Scale, text_px
from crossline.serve.console.charts.svg import Element, drawing, line, text
from crossline.serve.console.charts.words import Wording, duration, number

HEIGHT, FACTS_PX, LEFT = 176, 190, 44.0
TOP, BOTTOM, ROW_PX = 8.0, 152.0, 24.0
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 45)
POINTS = 48
LEAST_SPAN = 0.02  # degrees


def travel_map(shown: Timeline, width: int, words: Wording | None = None) -> Element:
    """Draw a timeline of the shape ``travel``; on narrow screens the numbers stand below the map."""
    words = words or Wording()
    trip = shown.travel
    if trip is None:
        return drawing(width, HEIGHT, words.conclusion(shown), [text(0, 20, "The place before is not known")])
    narrow = width < NARROW_PX
    right = width - 12.0 if narrow else width - FACTS_PX - 28.0
    points = great_circle(trip.start, trip.end)
    x, y = projection(points, LEFT, right)
    parts = [*_graticule(x, y), *_route(trip, points, x, y, words)]
    parts += _facts(trip, 0.0 if narrow else width - FACTS_PX, width - 6.0, BOTTOM + 46 if narrow else 30.0)
    return drawing(width, int(BOTTOM + 46 + 4 * ROW_PX) if narrow else HEIGHT, words.conclusion(shown), parts)


def great_circle(start: Location, end: Location, count: int = POINTS) -> list[tuple[float, float]]:
    """Points of the shortest way, as longitude and latitude in degrees; the longitude runs on over the date line."""
    a, b = _vector(start), _vector(end)
    angle = math.acos(max(-1.0, min(1.0, sum(p * q for p, q in zip(a, b, strict=True)))))
    found: list[tuple[float, float]] = []
    for step in range(count + 1):
        part = step / count
        if math.sin(angle) < 1e-9:
            longitude = start.longitude + part * (end.longitude - start.longitude)
            latitude = start.latitude + part * (end.latitude - start.latitude)
        else:
            p, q = math.sin((1 - part) * angle) / math.sin(angle), math.sin(part * angle) / math.sin(angle)
            vx, vy, vz = (p * i + q * j for i, j in zip(a, b, strict=True))
            latitude, longitude = math.degrees(math.atan2(vz, math.hypot(vx, vy))), math.degrees(math.atan2(vy, vx))
        if found:
            longitude += 360 * round((found[-1][0] - longitude) / 360)
        found.append((longitude, latitude))
    return found


def _vector(place: Location) -> tuple[float, float, float]:
    latitude, longitude = math.radians(place.latitude), math.radians(place.longitude)
    return math.cos(latitude) * math.cos(longitude), math.cos(latitude) * math.sin(longitude), math.sin(latitude)


def projection(points: Sequence[tuple[float, float]], left: float, right: float) -> tuple[Scale, Scale]:
    """Scales of longitude and latitude: a degree is as long east as north at the middle of the way, with a margin."""
    lon, lat = [each[0] for each in points], [each[1] for each in points]
    middle = (min(lat) + max(lat)) / 2
    squeeze = max(0.2, math.cos(math.radians(middle)))
    wide, high = right - left, BOTTOM - TOP
    span_lat = max((max(lat) - min(lat)) * 1.6, (max(lon) - min(lon)) * 1.5 * squeeze * high / wide, LEAST_SPAN)
    span_lon = span_lat / squeeze * wide / high
    center = (min(lon) + max(lon)) / 2
    x = Scale(center - span_lon / 2, center + span_lon / 2, left, right)
    return x, Scale(middle - span_lat / 2, middle + span_lat / 2, BOTTOM, TOP)


def _graticule(x: Scale, y: Scale) -> Iterator[Element]:
    for value in _lines(x, 64):
        yield line("gr", (x(value), TOP), (x(value), BOTTOM))
        turned = (value + 180) % 360 - 180
        caption = _degrees(turned, "E", "W")
        if x(value) - text_px(caption) / 2 > 0:
            yield text(x(value), BOTTOM + 16, caption, None, "middle")
    for value in _lines(y, 40):
        if abs(value) <= 90:
            yield line("gr", (x.start, y(value)), (x.end, y(value)))
            yield text(x.start - 8, y(value) + 4, _degrees(value, "N", "S"), None, "end")


def _lines(scale: Scale, apart_px: float) -> list[float]:
    most = max(1.0, abs(scale.end - scale.start) / apart_px)
    step = next((each for each in STEPS if (scale.high - scale.low) / each <= most), STEPS[-1])
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    return [round(each * step, 6) for each in range(first, last + 1)]


def _degrees(value: float, above: str, below: str) -> str:
    return f"{abs(value):g}°{above if value > 0 else below if value < 0 else ''}"


def _route(
    trip: Travel, points: Sequence[tuple[float, float]], x: Scale, y: Scale, words: Wording
) -> Iterator[Element]:
    yield line("way", *((x(longitude), y(latitude)) for longitude, latitude in points))
    ends = ((trip.start, points[0], "counted"), (trip.end, points[-1], "crossing"))
    for (place, (longitude, latitude), mark), beside in zip(ends, (points[1], points[-2]), strict=True):
        at = x(longitude), y(latitude)
        name = f"{_degrees(round(place.latitude, 2), 'N', 'S')} {_degrees(round(place.longitude, 2), 'E', 'W')}"
        yield dot("crossing" if mark == "crossing" else "counted", *at, place.record_id or "", name)
        under = beside[1] >= latitude  # the way goes up from it
        caption = words.clock(place.at_ms, 1_000)
        half = text_px(caption) / 2
        where = min(max(at[0], x.start + half), x.end - half)
        yield text(where, at[1] + 20 if under else at[1] - 12, caption, "lab", "middle")


def _facts(trip: Travel, left: float, right: float, first: float) -> list[Element]:
    speed = "without any time" if trip.speed_kmh is None else f"{number(round(trip.speed_kmh))} km/h"
    facts = [
        ("distance", f"{number(round(trip.distance_km))} km", "lab"),
        ("time", duration(trip.elapsed_ms), "lab"),
        ("speed", speed, "thr-t"),
        ("threshold", f"{number(trip.limit_kmh)} km/h", "lab"),
    ]
    return [
        each
        for row, (name, value, kind) in enumerate(facts)
        for each in (text(left, first + ROW_PX * row, name), text(right, first + ROW_PX * row, value, kind, "end"))
    ]
