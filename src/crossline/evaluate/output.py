"""The output of one batch in one shard, as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crossline.basics.values import I64
from crossline.evaluate.alerts.hits import Hit, JudgedRows
from crossline.evaluate.failures import Unjudged, unjudged
from crossline.plan.costs import Meter
from crossline.state.batch import Delta, Failure, Hits

if TYPE_CHECKING:
    from crossline.evaluate.feature_rows import FeatureRows
    from crossline.evaluate.suppression.change_columns import SuppressionChanges
    from crossline.evaluate.suppression.last_alerts import LastAlertChanges
    from crossline.evaluate.suppression.rows import SuppressedRows

BoolMask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record stands, for a dead letter or a late record: its bytes are fetched from the source."""

    stream: str
    partition: str
    offset: int
    record_id: str
    event_ms: int
    ingest_ms: int


@dataclass(frozen=True, slots=True)
class StoreDelta:
    """What a batch added to one state store; ``lines``: the rule versions that bits of ``delta.sat`` stand for.

    ``crossed``: what became of the last alerts of its rules and keys, where decisions go by them.
    """

    state_store: str
    delta: Delta
    lines: tuple[tuple[str, int], ...]
    crossed: LastAlertChanges | None = None


@dataclass(frozen=True, slots=True)
class StreamClocks:
    """How far a stream has been read, in epoch ms.

    ``ingest_ms``: the highest ingest time. ``slowest_ms``: where the log stands that is furthest behind. ``event_ms``:
    the highest event time in the batch, None where it had no record.
    """

    ingest_ms: int
    slowest_ms: int
    event_ms: int | None = None

    def after(self, before: StreamClocks | None) -> StreamClocks:
        """These where ``before`` stood: of what only rises the higher, of the slowest log these."""
        if before is None:
            return self
        events = [ms for ms in (before.event_ms, self.event_ms) if ms is not None]
        return StreamClocks(max(before.ingest_ms, self.ingest_ms), self.slowest_ms, max(events, default=None))


@dataclass(frozen=True, slots=True)
class Reported:
    """All records of a stream that a batch has in this shard, each once, and which of them are copies.

    ``allowed_ms``: lateness past which every rule in force leaves a record unjudged; copies are not known beyond it.
    """

    judged: JudgedRows
    duplicates: BoolMask
    allowed_ms: I64 | int


@dataclass(slots=True)
class ShardOutput:
    """What one batch gave: hits, duplicates, late records, and the deltas to be persisted.

    ``by_stream``: the ``records`` of each stream. ``failed``: how many records a model could not judge, by rule version
    and why; ``unjudged``: which these are. ``missed``: by table, how many records it had no row for.
    ``feature_queries``: the feature rows of each program with a feature query; of one
    that saw none, nothing. ``suppressed``: where rules hold and raise no alert, where decisions are made, and
    ``suppression_changes``: its changes that another record caused. ``meter``: what measures it.
    """

    hits: list[Hit] = field(default_factory=list)
    reported: list[Reported] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)
    deltas: list[StoreDelta] = field(default_factory=list)
    records: int = 0
    by_stream: dict[str, int] = field(default_factory=dict)
    retained: int = 0
    clocks: dict[str, StreamClocks] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    without_context: dict[str, int] = field(default_factory=dict)
    failed: dict[Failure, int] = field(default_factory=dict)
    unjudged: list[Unjudged] = field(default_factory=list)
    feature_queries: list[FeatureRows] = field(default_factory=list)
    suppressed: list[SuppressedRows] = field(default_factory=list)
    suppression_changes: list[SuppressionChanges] = field(default_factory=list)
    very_late: list[Hit] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)

    def fail(self, judged: JudgedRows, hits: Hits, missed: Sequence[BoolMask]) -> None:
        """Note which rows of the store that was judged last models could not judge; ``missed``: see ``unjudged``."""
        for failure, count in hits.failed.items():
            self.failed[failure] = self.failed.get(failure, 0) + count
        if hits.failed:
            self.unjudged += unjudged(judged, hits, missed)

    def pop_hold_hits(self) -> list[Hit]:
        """The hits of holds, removed from ``hits``: they are no alerts."""
        held = [hit for hit in self.hits if hit.version.rule.is_hold]
        if held:
            self.hits = [hit for hit in self.hits if not hit.version.rule.is_hold]
        return held

    def add_suppressed(
        self, suppressed: SuppressedRows | None, changes: Iterable[SuppressionChanges], crossed: LastAlertChanges | None
    ) -> None:
        """Add the suppressed hits of the state store that was judged last."""
        if suppressed is not None:
            self.suppressed.append(suppressed)
        self.suppression_changes += changes
        self.deltas[-1] = replace(self.deltas[-1], crossed=crossed)

    @property
    def read(self) -> list[Hit]:
        """The hits for those who read hits: also those at very late records, which are for risk scores alone."""
        return [*self.hits, *self.very_late] if self.very_late else self.hits
