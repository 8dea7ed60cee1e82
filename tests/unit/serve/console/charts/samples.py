"""Timelines as values: those of the design's mockups, written down by hand."""

from __future__ import annotations

from dataclasses import replace

from crossline.backtest.investigation.figure_bars import FigureBar
from crossline.backtest.investigation.timeline import FigurePoint, Lane, Location, Mark, RecordMark, Timeline, Travel

DAY_MS = 1_795_392_000_000  # 2026-11-23T00:00:00Z


def at(text: str) -> int:
    """``14:04:16.550`` of the day."""
    hours, minutes, seconds = text.split(":")
    return DAY_MS + round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)


def mark(name: str, time: str, kind: Mark, amount: float | None = None, lane: int = 0, note: str = "") -> RecordMark:
    """A record of payments."""
    return RecordMark(
        name, "payments", at(time), at(time), kind, note or kind, amount, None, lane, {"account_id": "a1"}
    )


_SENDERS: list[tuple[str, str, Mark, float, float | None]] = [
    ("t0198203", "13:46:12.204", "outside", 18200, 1),
    ("t0198311", "13:48:51.090", "outside", 16450, 2),
    ("t0198479", "13:51:22.741", "counted", 30817, 2),
    ("t0198604", "13:53:40.971", "counted", 37995, 3),
    ("t0198712", "13:55:02.318", "filtered", 4290, None),
    ("t0198804", "13:57:05.364", "counted", 21803, 4),
    ("t0198911", "13:58:47.118", "before", 19000, 4),
    ("t0199024", "13:59:41.839", "counted", 28990, 5),
    ("t0199170", "14:01:50.010", "counted", 25473, 5),
    ("t0199322", "14:04:16.550", "crossing", 22500, 6),
    ("t0199352", "14:04:34.562", "after", 27199, 7),
    ("t0199432", "14:04:57.210", "after", 27314, 8),
    ("t0199518", "14:05:24.816", "after", 27276, 8),
]
SENDERS = Timeline(
    shape="window",
    figure="senders",
    unit="",
    operator=">=",
    threshold=6,
    from_ms=at("13:45:30"),
    to_ms=at("14:06:10"),
    window_start_ms=at("13:49:16.550"),
    window_end_ms=at("14:04:16.550"),
    bounds="(]",
    crossing="t0199322",
    at_ms=at("14:04:16.550"),
    due_ms=None,
    steps=tuple(FigurePoint(at(time), value, name) for name, time, _, _, value in _SENDERS if value is not None),
    records=tuple(mark(name, time, kind, amount) for name, time, kind, amount, _ in _SENDERS),
    money="amount_cents",
)
BARS = (
    FigureBar("senders", "distinct_count of account_id, 15 min", 6, 6, ">=", "", 0.5, False, True),
    FigureBar("received", "sum of amount_cents, 15 min", 186578, 150000, ">=", "money", 186578 / 300000, False, True),
    FigureBar("amount", "against 3 * usual", 22500, 14460, ">", "money", 22500 / 28920, False, True),
    FigureBar("tries", "count, 15 min", 50, 10, ">=", "", 1.0, True, True),
    FigureBar("avg", "avg of amount_cents, 2 min", 302.5, 500, "<", "", 302.5 / 1000, False, True),
    FigureBar("declines", "count, 10 min", 2, 6, ">=", "", 1 / 6, False, False),
)
SEQUENCE = replace(
    SENDERS,
    shape="sequence",
    figure="",
    threshold=None,
    from_ms=at("14:22:00"),
    to_ms=at("14:23:54.828"),
    window_start_ms=at("14:22:31.204"),
    window_end_ms=at("14:23:54.828"),
    crossing="s5",
    at_ms=at("14:23:54.828"),
    due_ms=at("14:27:31.204"),
    steps=(),
    records=(
        mark("s1", "14:22:14", "outside", 100, 1),
        mark("s2", "14:22:31.204", "counted", 100),
        mark("s3", "14:22:40", "counted", 100),
        mark("s4", "14:22:57", "counted", 100),
        mark("s5", "14:23:54.828", "crossing", 179652, 1),
    ),
    lanes=(Lane("wrong CVV", 3, 3), Lane("approved", 1, 1)),
)
TRAVEL = replace(
    SENDERS,
    shape="travel",
    figure="speed",
    unit="",
    threshold=500,
    steps=(),
    travel=Travel(
        Location(41.15, -8.61, at("13:58:12"), "v1"),
        Location(45.76, 4.84, at("14:04:51"), "v2"),
        1199.3,
        399_000,
        10820.8,
        500,
    ),
)
PACIFIC = replace(
    TRAVEL,
    travel=Travel(
        Location(35.68, 139.69, at("13:58:12"), "v1"),
        Location(37.77, -122.42, at("14:04:51"), "v2"),
        8270,
        399_000,
        74616,
        500,
    ),
)
_TIMES = [at("14:00:00") + round(600_000 * (1 - (1 - n / 420) ** 1.8)) for n in range(421)]
MANY = replace(
    SENDERS,
    figure="count",
    threshold=250,
    from_ms=at("14:00:00"),
    to_ms=at("14:10:00"),
    window_start_ms=at("14:03:44.112"),
    window_end_ms=at("14:08:44.112"),
    crossing="m300",
    at_ms=at("14:08:44.112"),
    steps=tuple(FigurePoint(each, min(n, 330), f"m{n}") for n, each in enumerate(_TIMES)),
    records=tuple(
        replace(mark(f"m{n}", "14:00:00", "counted"), event_ms=each, ingest_ms=each) for n, each in enumerate(_TIMES)
    ),
    money=None,
)
CORRELATION = replace(
    SENDERS,
    shape="correlation",
    figure="ratio_deviation",
    threshold=0.01,
    from_ms=at("14:08:00"),
    to_ms=at("14:22:00"),
    window_start_ms=at("14:10:04.981"),
    window_end_ms=at("14:20:04.981"),
    crossing="t0201551",
    at_ms=at("14:20:04.981"),
    steps=(),
    records=(),
    lanes=(Lane("payments", 1), Lane("rates", 8)),
)
ABSENCE = replace(
    SENDERS,
    shape="absence",
    threshold=None,
    from_ms=at("14:16:00"),
    to_ms=at("14:28:00"),
    window_start_ms=at("14:18:00"),
    window_end_ms=at("14:28:00"),
    crossing="t0200117",
    at_ms=at("14:18:00"),
    due_ms=at("14:28:00"),
    steps=(),
    records=(mark("t0200117", "14:18:00", "crossing", 94000), mark("t0200118", "14:19:00", "after", 1200)),
)
