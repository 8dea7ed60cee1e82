"""An interval of the past: which alerts and which frauds are of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from crossline.analysis.detection_quality import Alert, FraudLabels
from crossline.backtest.workbench.sample import Batch
from crossline.basics.errors import UsageError
from crossline.basics.times import instant_text, parse_instant_ms

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Of event time, epoch milliseconds; None: as far as the data goes. What came before only fills windows."""

    from_ms: int | None = None
    to_ms: int | None = None

    def holds(self, at_ms: int) -> bool:
        """Whether an instant is in it."""
        return (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms < self.to_ms)

    def has(self, alert: Alert) -> bool:
        """Whether ``alert`` is in it."""
        return self.holds(parse_instant_ms(alert["event_time"]))

    def within(self, first_ms: int, last_ms: int) -> tuple[int, int]:
        """From when to when there are records of it. Raises UsageError where there are none."""
        begin = first_ms if self.from_ms is None else max(first_ms, self.from_ms)
        end = last_ms + 1 if self.to_ms is None else min(last_ms + 1, self.to_ms)
        if begin >= end:
            there = f"{instant_text(first_ms)} to {instant_text(last_ms)}"
            raise UsageError(f"found no record in the interval; expected a part of {there}, of which there are records")
        return begin, end

    def days(self, first_ms: int, last_ms: int) -> float:
        """The days of it of which there are records. Raises UsageError where there are none."""
        begin, end = self.within(first_ms, last_ms)
        return (end - begin) / DAY_MS


ANY_TIME = Interval()


@dataclass(slots=True)
class LabelsWithin:
    """The labels of an interval: frauds of which no record is in it are not asked for."""

    interval: Interval
    marks: FraudLabels
    _ids: set[str] = field(default_factory=set)

    def see(self, batch: Batch) -> None:
        """The next batch."""
        for records, _ in batch.taken if not self._whole else ():
            labelled = zip(records.ids.to_pylist(), records.event_ms.tolist(), strict=True)
            self._ids.update(each for each, ms in labelled if each in self.marks.frauds and self.interval.holds(ms))

    def has(self, record_id: str) -> bool:
        """Whether a record that is part of a fraud is in the interval; it was seen."""
        return self._whole or record_id in self._ids

    def found(self) -> FraudLabels:
        """The labels, once all batches were seen."""
        if self._whole:
            return self.marks
        there = frozenset().union(*(self.marks.frauds[each] for each in self._ids))
        return replace(self.marks, asked=self.marks.asked & there)

    @property
    def _whole(self) -> bool:
        return self.interval == ANY_TIME
