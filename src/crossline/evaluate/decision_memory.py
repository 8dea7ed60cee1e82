"""What is known of records that were decided about, for as long as a correction may revise a decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import orjson

from crossline.basics.conditions.condition import Conditions
from crossline.evaluate.decisions.revision import Known
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.spaces import PlanKind
from crossline.plan.state_stores import StateStore
from crossline.state.batch import Delta, Hits, KeyedBatch
from crossline.state.windows.record_store import ANY_AGE, Sizes

Which = tuple[str, str, int]  # a record, by stream, partition and offset


@dataclass(frozen=True, slots=True)
class DecidedPlan:
    """That records are remembered."""

    kind: ClassVar[PlanKind] = "decided"


class DecidedStore:
    """Records of one stream and one shard of ids; None in the place of what is known of those that are copies."""

    def __init__(self, plan: DecidedPlan) -> None:
        self.plan = plan
        self.duplicate_ms = ANY_AGE
        self.known: dict[Which, Known | None] = {}
        self._event_ms: dict[Which, int] = {}

    @property
    def records(self) -> int:
        """Records held."""
        return len(self.known)

    def put(self, which: Which, known: Known | None, event_ms: int) -> None:
        """Remember a record."""
        self.known[which], self._event_ms[which] = known, event_ms

    def delta_of(self, changed: list[Which]) -> Delta:
        """What a batch changed."""
        lines = [[*which, self._event_ms[which], _as_json(self.known[which])] for which in changed]
        clock_ms = np.array([self._event_ms[which] for which in changed], np.int64)
        whole, part, raw = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8)
        filters = np.zeros((0, 0), np.uint8)
        batch = KeyedBatch(
            clock_ms=clock_ms,
            ingest_ms=whole,
            lateness_ms=whole,
            key_index=part,
            key_bytes=raw,
            key_offsets=whole,
            key_hash=np.zeros(0, np.uint64),
            id_bytes=raw,
            id_offsets=whole,
            values=(),
            filters=filters,
        )
        more = {"said": np.frombuffer(orjson.dumps(lines), np.uint8)}
        return Delta(batch, filters, part, part, more)

    def judge(self, batch: KeyedBatch) -> Hits:
        """Nothing is judged here."""
        raise NotImplementedError

    def delta(self, batch: KeyedBatch, hits: Hits) -> Delta:
        """Nothing is judged here."""
        raise NotImplementedError

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:  # noqa: ARG002 - there are none
        """Take in what a batch changed."""
        for stream, partition, offset, event_ms, known_json in orjson.loads(delta.more["said"].tobytes()):
            self.put((stream, partition, offset), None if known_json is None else Known.from_json(known_json), event_ms)

    def replan(self, plan: DecidedPlan) -> None:
        """There is only one."""
        self.plan = plan

    def evict(self, cutoff_ms: int) -> None:
        """Forget records that happened at ``cutoff_ms`` or before, once they are half of all."""
        gone = [which for which, event_ms in self._event_ms.items() if event_ms <= cutoff_ms]
        if 2 * len(gone) >= len(self.known):
            for which in gone:
                del self.known[which], self._event_ms[which]

    def due(self, passed_ms: int) -> None:
        """Nothing waits here."""

    def sizes(self) -> Sizes:
        """What is held; bytes are not counted."""
        return Sizes(self.records, self.records, 0)


def _as_json(known: Known | None) -> dict[str, Any] | None:
    return None if known is None else known.to_json()


def deciding_plan(plan: StreamPlan, late_ms: int) -> StreamPlan:
    """What is kept of the records of ``plan`` where decisions may be revised by records that are so late."""
    state_store = StateStore(f"{plan.stream}|decided", (), "event_time", (), (), 0, late_ms)
    kept: Any = DecidedPlan()
    state_stores = (StorePlan(state_store, kept, ()),)
    return replace(
        plan, state_stores=state_stores, stateless=(), accounting_store=0, copies=None, conditions=Conditions()
    )
