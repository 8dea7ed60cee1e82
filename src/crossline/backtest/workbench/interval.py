"""An interval of the history: the alerts and frauds in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from crossline.analysis.detection_quality import Alert, FraudLabels
from crossline.backtest.workbench.sample import Batch
from crossline.basics.errors import UsageError
from crossline.basics.times import instant_text, parse_instant_ms

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of event time, epoch ms; None: no bound. Earlier records only fill windows."""

    from_ms: int | None = None
    to_ms: int | None = None

    def holds(self, at_ms: int) -> bool:
        """Whether the interval contains an instant."""
        return (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms < self.to_ms)

    def has(self, alert: Alert) -> bool:
        """Whether the interval contains ``alert``."""
        return self.holds(parse_instant_ms(alert["event_time"]))

    def within(self, first_ms: int, last_ms: int) -> tuple[int, int]:
        """The first and last instant with records in the interval. Raises UsageError if there are none."""
        begin = first_ms if self.from_ms is None else max(first_ms, self.from_ms)
        end = last_ms + 1 if self.to_ms is None else min(last_ms + 1, self.to_ms)
        if begin >= end:
            there = f"{instant_text(first_ms)} to {instant_text(last_ms)}"
            raise UsageError(f"found no record in the interval; expected a part of {there}, of which there are records")
        return begin, end

    def days(self, first_ms: int, last_ms: int) -> float:
        """The days of the interval that have records. Raises UsageError if there are none."""
        begin, end = self.within(first_ms, last_ms)
        return (end - begin) / DAY_MS


ANY_TIME = Interval()


@dataclass(slots=True)
class LabelsWithin:
    """The labels of an interval: frauds without a record in it need not be found."""

    interval: Interval
    marks: FraudLabels
    _ids: set[str] = field(default_factory=set)

    def see(self, batch: Batch) -> None:
        """The next batch."""
        for records, _ in batch.inputs if not self._whole else ():
            labelled = zip(records.ids.to_pylist(), records.event_ms.tolist(), strict=True)
            self._ids.update(each for each, ms in labelled if each in self.marks.frauds and self.interval.holds(ms))

    def has(self, record_id: str) -> bool:
        """Whether the interval contains a record of a fraud that was in a batch."""
        return self._whole or record_id in self._ids

    def found(self) -> FraudLabels:
        """The labels, after the last batch."""
        if self._whole:
            return self.marks
        there = frozenset().union(*(self.marks.frauds[each] for each in self._ids))
        return replace(self.marks, asked=self.marks.asked & there)

    @property
    def _whole(self) -> bool:
        return self.interval == ANY_TIME
