"""``slo.path``: the counts of each minute, in SQLite. Run and API write it; reports read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.io.private_database import PrivateDatabase
from crossline.observe.objectives.budget import DAY, HOUR, EventCounts
from crossline.observe.objectives.histogram import Buckets, add_buckets, empty, encode_buckets

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

MINUTE_MS = 60_000
KEPT = 31 * DAY  # minutes of counts; of figures two days, today's and those that they are held against
FIGURES_KEPT = 2 * DAY + 60
_VERSION = 2
# Of what is measured, by minute and again by hour, of which long windows are made: ``width`` minutes from ``start``.
_HISTOGRAMS = """CREATE TABLE histograms (
    pipeline TEXT NOT NULL, name TEXT NOT NULL, held TEXT NOT NULL, width INTEGER NOT NULL, start INTEGER NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (pipeline, name, held, width, start)) WITHOUT ROWID, STRICT"""
_TABLES = (
    _HISTOGRAMS,
    """CREATE TABLE counts (
    pipeline TEXT NOT NULL, name TEXT NOT NULL, held TEXT NOT NULL, minute INTEGER NOT NULL,
    good INTEGER NOT NULL, total INTEGER NOT NULL,
    PRIMARY KEY (pipeline, name, held, minute)) WITHOUT ROWID, STRICT""",
    """CREATE TABLE figures (
    pipeline TEXT NOT NULL, name TEXT NOT NULL, minute INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (pipeline, name, minute)) WITHOUT ROWID, STRICT""",
)
_ADD = (
    "INSERT INTO counts (pipeline, name, held, minute, good, total) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (pipeline, name, held, minute) "
    "DO UPDATE SET good = good + excluded.good, total = total + excluded.total"
)
# What is the greatest of a minute stays so where two processes had parts of it; the rest adds up.
_PUT = {
    False: "INSERT INTO figures (pipeline, name, minute, value) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (pipeline, name, minute) DO UPDATE SET value = value + excluded.value",
    True: "INSERT INTO figures (pipeline, name, minute, value) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (pipeline, name, minute) DO UPDATE SET value = max(value, excluded.value)",
}
_SUM = (
    "SELECT COALESCE(SUM(good), 0), COALESCE(SUM(total), 0), COUNT(*) FROM counts "
    "WHERE pipeline = ? AND name = ? AND held = ? AND minute >= ? AND minute < ?"
)
_PARTS = (
    "SELECT data FROM histograms "
    "WHERE pipeline = ? AND name = ? AND held = ? AND width = ? AND start >= ? AND start < ?"
)
_PUT_PART = "INSERT OR REPLACE INTO histograms (pipeline, name, held, width, start, data) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Minute:
    """The counts of an objective in a minute (epoch minutes); ``held``: see ``Objective``.

    ``measured``: the values, as ``histogram.encode_buckets`` makes them; None where nothing was measured.
    """

    name: str
    held: str
    minute: int
    good: int
    total: int
    measured: bytes | None = None


@dataclass(frozen=True, slots=True)
class MinuteFigure:
    """Another figure of a minute. ``peak``: its maximum; else a sum."""

    name: str
    minute: int
    value: float
    peak: bool = False


class MinuteFile:
    """The minutes of ``pipeline`` in the file at ``path``. Each call waits for the disk: call it in the background.

    Raises RetryableError where it cannot be read or written now, StateError where it is something else.
    """

    def __init__(self, path: Path, pipeline: str) -> None:
        self._pipeline = pipeline
        made_by = "crossline run, or crossline serve,"
        self._db = PrivateDatabase(path, _VERSION, _TABLES, made_by, upgrades={1: (_HISTOGRAMS,)})

    def add(self, minutes: Iterable[Minute], figures: Iterable[MinuteFigure], now_minute: int) -> None:
        """Add counts, and delete minutes past their retention."""
        with self._db.writing() as db:
            for each in minutes:
                db.execute(_ADD, (self._pipeline, each.name, each.held, each.minute, each.good, each.total))
                if each.measured is not None:
                    self._measure(db, each, each.measured)
            for figure in figures:
                db.execute(_PUT[figure.peak], (self._pipeline, figure.name, figure.minute, figure.value))
            db.execute("DELETE FROM counts WHERE minute < ?", (now_minute - KEPT,))
            db.execute("DELETE FROM histograms WHERE start < ?", (now_minute - KEPT,))
            db.execute("DELETE FROM figures WHERE minute < ?", (now_minute - FIGURES_KEPT,))

    def counts(self, name: str, held: str, end: int, spans: Iterable[int]) -> dict[int, EventCounts]:
        """By span: what was counted in so many minutes before minute ``end``. Nothing, where there is no file yet."""
        with self._reading() as db:
            if db is None:
                return {span: EventCounts() for span in spans}
            asked = (self._pipeline, name, held)
            return {span: EventCounts(*db.execute(_SUM, (*asked, end - span, end)).fetchone()) for span in spans}

    def measured(self, name: str, held: str, end: int, spans: Iterable[int]) -> dict[int, Buckets]:
        """By span: which values came in so many minutes before minute ``end``; see ``counts``."""
        found = {span: empty() for span in spans}
        with self._reading() as db:
            if db is None:
                return found
            for span, buckets in found.items():
                for width, begin, stop in _stretches(end - span, end):
                    asked = (self._pipeline, name, held, width, begin, stop)
                    add_buckets(buckets, (data for (data,) in db.execute(_PARTS, asked)))
        return found

    def _measure(self, db: sqlite3.Connection, each: Minute, data: bytes) -> None:
        for width in (1, HOUR):
            which = (self._pipeline, each.name, each.held, width, each.minute // width * width)
            found = add_buckets(empty(), [data])
            add_buckets(found, (before for (before,) in db.execute(f"{_PARTS} LIMIT 1", (*which, which[-1] + width))))
            db.execute(_PUT_PART, (*which, encode_buckets(found)))

    def figures(self, begin: int, end: int) -> Mapping[str, Mapping[int, float]]:
        """By name and minute, those from minute ``begin`` on and before ``end``."""
        found: dict[str, dict[int, float]] = {}
        with self._reading() as db:
            asked = "SELECT name, minute, value FROM figures WHERE pipeline = ? AND minute >= ? AND minute < ?"
            for name, minute, value in () if db is None else db.execute(asked, (self._pipeline, begin, end)):
                found.setdefault(name, {})[minute] = value
        return found

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        path = self._db.path
        if not path.exists() or not path.stat().st_size:  # nothing was written yet
            yield None
            return
        with self._db.reading() as db:
            yield db


def _stretches(begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Of which parts the minutes from ``begin`` on and before ``end`` are made: width, from where, to where."""
    first, last = -(-begin // HOUR) * HOUR, end // HOUR * HOUR
    if first >= last:
        yield 1, begin, end
        return
    yield 1, begin, first
    yield HOUR, first, last
    yield 1, last, end
