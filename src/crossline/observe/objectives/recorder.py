"""Adds up the counts of a minute, and writes them at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.observe.objectives.declaration import Objective
from crossline.observe.objectives.histogram import (
    REACH,
    Buckets,
    Values,
    bucket_of,
    counted,
    empty,
    encode_buckets,
    kept_of,
)
from crossline.observe.objectives.minute_file import MINUTE_MS, Minute, MinuteFigure, MinuteFile

log = get_logger(__name__)


class Recorder:
    """Counts of the objectives that one process measures. Any thread may add.

    Args:
        file: Where minutes are kept.
        objectives: What is measured here.
        now_ms: Epoch milliseconds.
        sampled: Names of those that are looked at, and do not just happen: a minute in which nothing was counted of
            them is unknown. Of the others it is known, and had nothing.
    """

    def __init__(
        self,
        file: MinuteFile,
        objectives: Sequence[Objective],
        now_ms: Callable[[], int],
        sampled: Iterable[str] = (),
    ) -> None:
        self.file, self.objectives, self.now_ms = file, tuple(objectives), now_ms
        self._held = {each.name: each.held for each in objectives}
        self._limits = {each.name: float(each.limit) for each in objectives if each.limit is not None}
        self._sampled = frozenset(sampled)
        self._lock = threading.Lock()
        self._minute = now_ms() // MINUTE_MS
        self._counts: dict[str, tuple[int, int]] = {}
        self._measured: dict[str, Buckets] = {}
        self._figures: dict[tuple[str, bool], float] = {}
        self.events = dict.fromkeys(self._held, 0)  # since the start, for Prometheus
        self.bad = dict.fromkeys(self._held, 0)

    def add(self, name: str, good: int, total: int) -> None:
        """``good`` of ``total`` in the minute that runs; nothing where ``name`` is no objective here."""
        if name not in self._held:
            return
        with self._lock:
            self._add(name, good, total)

    def measure(self, name: str, values: Values) -> None:
        """``values`` in the minute that runs, each good where it is at most the limit of the objective.

        In the unit of the limit. Nothing where ``name`` is no objective here, or one without a limit.
        """
        limit = self._limits.get(name)
        if limit is None:
            return
        found = counted(values, limit)
        with self._lock:
            self._add(name, kept_of(found), int(found.sum()))
            self._buckets_of(name)[:] += found

    def measure_one(self, name: str, value: float) -> None:
        """As ``measure``, for one value, without numpy's overhead."""
        limit = self._limits.get(name)
        if limit is None:
            return
        place = bucket_of(value, limit)
        with self._lock:
            self._add(name, int(place <= REACH), 1)
            self._buckets_of(name)[place] += 1

    def _add(self, name: str, good: int, total: int) -> None:
        before_good, before = self._counts.get(name, (0, 0))
        self._counts[name] = before_good + good, before + total
        self.events[name] += total
        self.bad[name] += total - good

    def _buckets_of(self, name: str) -> Buckets:
        found = self._measured.get(name)
        if found is None:
            found = self._measured[name] = empty()
        return found

    def figure(self, name: str, value: float, *, peak: bool = False) -> None:
        """Something else of the minute that runs: added up, or of a ``peak`` the greatest."""
        with self._lock:
            before = self._figures.get((name, peak))
            after = value if before is None else max(before, value) if peak else before + value
            self._figures[name, peak] = after

    def over(self) -> bool:
        """Whether the minute that was counted in has ended."""
        return self.now_ms() // MINUTE_MS > self._minute

    def flush(self) -> None:
        """Write the counts and reset them. If that fails, the minute stays unknown, and the error is logged."""
        with self._lock:
            minute, self._minute = self._minute, self.now_ms() // MINUTE_MS
            counts, self._counts = self._counts, {}
            measured, self._measured = self._measured, {}
            figures, self._figures = self._figures, {}
        known = [name for name in self._held if name in counts or name not in self._sampled]
        rows = [
            Minute(
                name=name,
                held=self._held[name],
                minute=minute,
                good=good,
                total=total,
                measured=None if name not in measured else encode_buckets(measured[name]),
            )
            for name, (good, total) in ((name, counts.get(name, (0, 0))) for name in known)
        ]
        more = [MinuteFigure(name, minute, value, peak) for (name, peak), value in figures.items()]
        try:
            self.file.add(rows, more, minute)
        except (CrosslineError, OSError) as error:
            log.warning("the counts of a minute cannot be kept: it stays unknown", error=str(error))
